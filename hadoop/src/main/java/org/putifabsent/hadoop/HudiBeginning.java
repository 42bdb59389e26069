package org.putifabsent.hadoop;

import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * What this thread of Hudi's is about to begin, when it asks for the lock, and would better begin later.
 *
 * <p>A commit may wait for others only where its rows don't come from the table itself: see {@link SparkWrite}. A
 * clustering is planned after the lock is got. Other locks of Hudi's are for what is under way already.
 */
final class HudiBeginning {

  /** A commit that only inserts rows, any other, or a clustering, as the service calls them. */
  static final String INSERT = "insert";

  static final String COMMIT = "commit";

  static final String CLUSTERING = "clustering";

  private static final String CLIENTS = "org.apache.hudi.client.";
  private static final String LOCKS = CLIENTS + "transaction.TransactionManager.beginStateChange";
  private static final String STARTS = CLIENTS + "BaseHoodieWriteClient.startCommit";
  private static final String SCHEDULES = CLIENTS + "BaseHoodieTableServiceClient.scheduleTableServiceInternal";
  private static final String CLUSTERS = CLIENTS + "BaseHoodieTableServiceClient.scheduleClustering";
  private static final String OPERATION = "hoodie.datasource.write.operation";
  private static final Set<String> INSERTS = Set.of("insert", "bulk_insert");
  private static final String DROPS = "hoodie.datasource.write.insert.drop.duplicates";
  private static final String POLICY = "hoodie.datasource.insert.dup.policy";
  private static final String ALLOWS = "hoodie.merge.allow.duplicate.on.inserts";
  private static final String METADATA_TABLE = "/.hoodie/metadata";
  private static final int BELOW = 4;

  private HudiBeginning() {}

  /** Returns it for a table, by its folder, and a write's options; empty: nothing that waits, or nobody knows. */
  static Optional<String> of(String table, Properties options) {
    if (table.endsWith(METADATA_TABLE)) {
      return Optional.empty();
    }
    List<String> calls =
        StackWalker.getInstance()
            .walk(
                all ->
                    all.map(call -> call.getClassName() + "." + call.getMethodName())
                        .dropWhile(call -> !call.equals(LOCKS))
                        .dropWhile(LOCKS::equals)
                        .limit(BELOW)
                        .collect(Collectors.toList()));
    if (calls.isEmpty()) {
      return Optional.empty();
    }
    if (calls.get(0).equals(STARTS)) {
      return Optional.of(inserts(options) ? INSERT : COMMIT).filter(commit -> isBlind(table));
    }
    return Optional.of(CLUSTERING).filter(clustering -> calls.get(0).equals(SCHEDULES) && calls.contains(CLUSTERS));
  }

  /** Whether rows that are there already are neither replaced nor looked for. */
  static boolean inserts(Properties options) {
    return INSERTS.contains(options.getProperty(OPERATION, "").toLowerCase(Locale.ROOT))
        && !Boolean.parseBoolean(options.getProperty(DROPS))
        && options.getProperty(POLICY, "none").equalsIgnoreCase("none")
        && Boolean.parseBoolean(options.getProperty(ALLOWS, "true"));
  }

  private static boolean isBlind(String table) {
    try {
      return SparkWrite.isBlind(table);
    } catch (Exception | LinkageError | StackOverflowError unknown) {
      // Without Spark, or in a version that is not known: nobody waits.
      return false;
    }
  }
}
