package org.putifabsent.hadoop;

import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.execution.command.ResetCommand;
import org.apache.spark.sql.execution.command.SetCommand;
import scala.Option;
import scala.Product;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.runtime.BoxedUnit;

/**
 * Refuses what a Spark session is asked for once its settings lead past the guard.
 *
 * <p>Whoever writes looks for a filesystem in the context's, the session's and the write's own settings, and all of
 * them can be changed while a session runs; a catalog has its own, beside. So whenever Spark analyses a plan, before it
 * runs, what the application was started with must still hold: which schemes are guarded, and which service is asked.
 */
public final class SessionGuard implements SparkSessionExtensionsProvider {

  private static final String HADOOP = "spark.hadoop.";
  private static final Pattern OF_A_CATALOG = Pattern.compile("spark\\.sql\\.catalog\\..+?\\.hadoop\\.(fs\\..+)");
  private static final String CLASSES = SessionGuard.class.getPackageName() + ".";

  /** Spark makes one by its name. */
  public SessionGuard() {}

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectCheckRule(
        session -> {
          Map<String, String> guarding = guarding(session.sparkContext());
          // Before the first catalog opens a filesystem, which all others then get.
          checkCatalogs(guarding, session);
          return plan -> {
            // By these it is mended.
            if (!(plan instanceof SetCommand || plan instanceof ResetCommand)) {
              check(guarding, session, plan);
              checkCatalogs(guarding, session);
            }
            return BoxedUnit.UNIT;
          };
        });
    return BoxedUnit.UNIT;
  }

  /** Returns the settings by which an application's filesystems are guarded, as it was started with them. */
  private static Map<String, String> guarding(SparkContext context) {
    Map<String, String> found = new HashMap<>();
    for (Map.Entry<String, String> each : context.hadoopConfiguration()) {
      note(each.getKey(), each.getValue(), found);
    }
    for (Tuple2<String, String> each : context.getConf().getAllWithPrefix(HADOOP)) {
      note(each._1(), each._2(), found);
    }
    return found;
  }

  private static void note(String key, String value, Map<String, String> found) {
    if (key.startsWith(Settings.OURS) || (key.startsWith("fs.") && value.startsWith(CLASSES))) {
      found.put(key, value);
    }
  }

  private static void check(Map<String, String> guarding, SparkSession session, Product plan) {
    Configuration hadoop = session.sparkContext().hadoopConfiguration();
    guarding.forEach(
        (key, value) -> {
          if (!value.equals(hadoop.getRaw(key))) {
            throw refused(key, "in the context's Hadoop configuration: set it back");
          }
          if (isAnother(session.conf().getOption(key), value)) {
            throw refused(key, "in the session's settings: spark.conf.unset(\"" + key + "\")");
          }
          if (isAnother(option(plan, key), value)) {
            throw refused(key, "among its own options: leave it out");
          }
        });
  }

  /** Refuses what Iceberg and Paimon lay over the session's own settings when they open a catalog's files. */
  private static void checkCatalogs(Map<String, String> guarding, SparkSession session) {
    Iterator<Tuple2<String, String>> all = session.conf().getAll().iterator();
    while (all.hasNext()) {
      Tuple2<String, String> said = all.next();
      Matcher key = OF_A_CATALOG.matcher(said._1());
      String value = key.matches() ? guarding.get(key.group(1)) : null;
      if (value != null && !value.equals(said._2())) {
        throw refused(said._1(), "in the session's settings: spark.conf.unset(\"" + said._1() + "\")");
      }
    }
  }

  private static boolean isAnother(Option<String> said, String value) {
    return said.isDefined() && !value.equals(said.get());
  }

  /** Returns what a plan's own options, where it has any, say of a key. */
  private static Option<String> option(Product plan, String key) {
    Iterator<Object> parts = plan.productIterator();
    while (parts.hasNext()) {
      Object part = parts.next();
      if (part instanceof scala.collection.Map) {
        @SuppressWarnings("unchecked")
        Option<Object> said = ((scala.collection.Map<Object, Object>) part).get(key);
        if (said.isDefined()) {
          return Option.apply(String.valueOf(said.get()));
        }
      }
    }
    return Option.empty();
  }

  private static RuntimeException refused(String key, String where) {
    return new IllegalArgumentException(
        "putifabsent: this would go past the guard, for " + key + " was changed " + where);
  }
}
