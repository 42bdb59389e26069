package org.putifabsent.hadoop;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
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
 * runs, what the application was started with must still hold: which schemes are guarded, which service is asked, and
 * where the stores are, which the service was told at the start. No other scheme may have come by then to what is
 * guarded, and nobody have opened that without the guard.
 */
public final class SessionGuard implements SparkSessionExtensionsProvider {

  private static final String HADOOP = "spark.hadoop.";
  private static final Pattern OF_A_CATALOG = Pattern.compile("spark\\.sql\\.catalog\\..+?\\.hadoop\\.(fs\\..+)");
  private static final Pattern OF_A_SCHEME = Pattern.compile("fs\\.(?:AbstractFileSystem\\.)?([^.]+)\\.impl");
  /** The keys that say where a store is, and whose it is. */
  private static final Map<Pattern, String> PLACES =
      Map.of(
          Pattern.compile("fs\\.s3a\\.(?:bucket\\..+\\.)?endpoint"), "org.apache.hadoop.fs.s3a.S3AFileSystem",
          Pattern.compile("fs\\.gs\\.storage\\.root\\.url"), "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem");
  /** Here is the local filesystem, which takes files of no other scheme. */
  private static final String OF_ALL = "org.apache.hadoop.fs";
  private static final String CLASSES = SessionGuard.class.getPackageName() + ".";

  /** Spark makes one by its name. */
  public SessionGuard() {}

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectCheckRule(
        session -> {
          Map<String, String> guarding = guarding(session.sparkContext());
          Set<String> schemes = schemes(guarding);
          // Before the first catalog opens a filesystem, which all others then get.
          checkSession(guarding, session);
          return plan -> {
            // By these it is mended.
            if (!(plan instanceof SetCommand || plan instanceof ResetCommand)) {
              check(guarding, session, plan);
              Configuration hadoop = session.sparkContext().hadoopConfiguration();
              hadoop.forEach(each -> checkAdded(guarding, each.getKey(), each.getValue()));
              checkSession(guarding, session);
              FilesystemCache.check(schemes);
            }
            return BoxedUnit.UNIT;
          };
        });
    return BoxedUnit.UNIT;
  }

  /** Refuses a JVM that has opened, without the guard, a filesystem that these settings guard. */
  public static void checkOpened(Configuration hadoop) {
    Map<String, String> guarding = new HashMap<>();
    for (Map.Entry<String, String> each : hadoop) {
      note(each.getKey(), each.getValue(), guarding);
    }
    FilesystemCache.check(schemes(guarding));
  }

  /** Returns the settings by which an application's filesystems are guarded, as it was started with them. */
  private static Map<String, String> guarding(SparkContext context) {
    Map<String, String> started = new HashMap<>();
    for (Map.Entry<String, String> each : context.hadoopConfiguration()) {
      started.put(each.getKey(), each.getValue());
    }
    for (Tuple2<String, String> each : context.getConf().getAllWithPrefix(HADOOP)) {
      started.put(each._1(), each._2());
    }
    Map<String, String> found = new HashMap<>();
    started.forEach((key, value) -> note(key, value, found));
    started.forEach(
        (key, value) -> {
          if (isPlace(found, key)) {
            found.put(key, value);
          }
        });
    return found;
  }

  private static void note(String key, String value, Map<String, String> found) {
    if (key.startsWith(Settings.OURS) || (key.startsWith("fs.") && value.startsWith(CLASSES))) {
      found.put(key, value);
    }
  }

  private static Set<String> schemes(Map<String, String> guarding) {
    Set<String> found = new HashSet<>();
    for (String key : guarding.keySet()) {
      Matcher scheme = OF_A_SCHEME.matcher(key);
      if (scheme.matches()) {
        found.add(scheme.group(1));
      }
    }
    return found;
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
        });
    Iterator<Object> parts = plan.productIterator();
    while (parts.hasNext()) {
      Object part = parts.next();
      if (part instanceof scala.collection.Map) {
        checkOptions(guarding, (scala.collection.Map<?, ?>) part);
      }
    }
  }

  /** Refuses what a plan's own options change. */
  private static void checkOptions(Map<String, String> guarding, scala.collection.Map<?, ?> options) {
    @SuppressWarnings("unchecked")
    scala.collection.Map<Object, Object> said = (scala.collection.Map<Object, Object>) options;
    guarding.forEach(
        (key, value) -> {
          if (isAnother(said.get(key), value)) {
            throw refused(key, "among its own options: leave it out");
          }
        });
    Iterator<Tuple2<Object, Object>> all = said.iterator();
    while (all.hasNext()) {
      Tuple2<Object, Object> each = all.next();
      checkAdded(guarding, String.valueOf(each._1()), String.valueOf(each._2()));
    }
  }

  /** Refuses what the session's settings add, and what Iceberg and Paimon lay over them to open a catalog's files. */
  private static void checkSession(Map<String, String> guarding, SparkSession session) {
    Iterator<Tuple2<String, String>> all = session.conf().getAll().iterator();
    while (all.hasNext()) {
      Tuple2<String, String> said = all.next();
      Matcher key = OF_A_CATALOG.matcher(said._1());
      String value = key.matches() ? guarding.get(key.group(1)) : null;
      if (value != null && !value.equals(said._2())) {
        throw refused(said._1(), "in the session's settings: spark.conf.unset(\"" + said._1() + "\")");
      }
      checkAdded(guarding, key.matches() ? key.group(1) : said._1(), said._2());
    }
  }

  /** Refuses a setting by which another scheme has a filesystem that is guarded elsewhere, or a bucket another place. */
  private static void checkAdded(Map<String, String> guarding, String key, String type) {
    if (!key.startsWith("fs.")) {
      return;
    }
    if (!guarding.containsKey(key) && isPlace(guarding, key)) {
      throw new IllegalArgumentException(
          "putifabsent: this would go past the guard, for " + key + " says where a store is, and came after the start: "
              + "set it before mount() or in spark-defaults.conf, and start again");
    }
    Matcher scheme = OF_A_SCHEME.matcher(key);
    if (type != null && scheme.matches() && !guarding.containsKey("fs." + scheme.group(1) + ".impl") && isWrapped(guarding, type)) {
      throw new IllegalArgumentException(
          "putifabsent: this would go past the guard, for " + scheme.group(1) + ":// leads to guarded stores by "
              + type + ", and is not guarded: mount it, too, or remove " + key);
    }
  }

  /** Whether a class is one that is wrapped, or beside it, as is what {@code FileContext} goes by. */
  private static boolean isWrapped(Map<String, String> guarding, String type) {
    return guarding.entrySet().stream()
        .filter(each -> each.getKey().startsWith(Settings.WRAPPED))
        .map(Map.Entry::getValue)
        .anyMatch(each -> each.equals(type) || (!home(each).equals(OF_ALL) && home(each).equals(home(type))));
  }

  /** Whether a key says where a store is that is wrapped. */
  private static boolean isPlace(Map<String, String> guarding, String key) {
    return PLACES.entrySet().stream()
        .anyMatch(each -> each.getKey().matcher(key).matches() && isWrapped(guarding, each.getValue()));
  }

  private static String home(String type) {
    return type.substring(0, Math.max(0, type.lastIndexOf('.')));
  }

  private static boolean isAnother(Option<?> said, String value) {
    return said.isDefined() && !value.equals(String.valueOf(said.get()));
  }

  private static RuntimeException refused(String key, String where) {
    return new IllegalArgumentException(
        "putifabsent: this would go past the guard, for " + key + " was changed " + where);
  }
}
