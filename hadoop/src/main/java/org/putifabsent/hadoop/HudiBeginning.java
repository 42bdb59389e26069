package org.putifabsent.hadoop;

import java.lang.reflect.InvocationTargetException;
import java.util.Objects;
import java.util.Optional;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.sources.BaseRelation;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;

/**
 * What this thread of Hudi's is about to begin, when it asks for the lock, and would better begin later.
 *
 * <p>A commit may wait for others only where its rows don't come from the table itself: Hudi compares a commit with those
 * that were completed after it began. Whoever has read the table, and then waits, would write over what others have
 * completed meanwhile, and hear nothing of it: {@code UPDATE}, {@code MERGE} and {@code DELETE}, and queries that write
 * into a table what they have read there. They go on at once, and have their conflicts. A clustering is planned after the
 * lock is got.
 */
final class HudiBeginning {

  private static final String CLIENT = "org.apache.hudi.client.BaseHoodieWriteClient";
  private static final String SERVICES = "org.apache.hudi.client.BaseHoodieTableServiceClient";
  private static final String BEGINS = "startCommit";
  private static final String CLUSTERS = "scheduleClustering";
  private static final String HUDI = "org.apache.hudi.";
  private static final String HUDI_IN_SPARK = "org.apache.spark.sql.hudi.";
  private static final String INSERT = "InsertInto";
  private static final int MOST_PARTS = 100_000;

  private final String table;
  private int parts;

  private HudiBeginning(String table) {
    this.table = table;
  }

  /** Returns what the service calls it; empty: nothing that waits, or nobody knows. */
  static Optional<String> of(String table) {
    Optional<String> begins =
        StackWalker.getInstance().walk(calls -> calls.map(HudiBeginning::begunBy).filter(Objects::nonNull).findFirst());
    return begins.filter(what -> !what.equals("commit") || isBlind(table));
  }

  private static String begunBy(StackWalker.StackFrame call) {
    if (call.getClassName().equals(CLIENT) && call.getMethodName().equals(BEGINS)) {
      return "commit";
    }
    boolean clusters = call.getClassName().equals(SERVICES) && call.getMethodName().equals(CLUSTERS);
    return clusters ? "clustering" : null;
  }

  /** Returns true where that is known; a plan that can't be read may read anything. */
  private static boolean isBlind(String table) {
    try {
      return new HudiBeginning(within(new Path(table))).isBlind();
    } catch (LinkageError | ReflectiveOperationException noSpark) {
      return false;
    }
  }

  private boolean isBlind() throws ReflectiveOperationException {
    Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isEmpty()) {
      return false;
    }
    String running = session.get().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    QueryExecution query = running == null ? null : SQLExecution.getQueryExecution(Long.parseLong(running));
    if (query == null) {
      return false;
    }
    Product written = query.analyzed();
    boolean isInsert = written.getClass().getSimpleName().startsWith(INSERT);
    Iterator<Object> found = written.productIterator();
    while (found.hasNext()) {
      Object part = found.next();
      // Into which table it inserts.
      if (!(isInsert && part instanceof LogicalRelation) && reads(part)) {
        return false;
      }
    }
    return true;
  }

  /** Whether a part of a plan may read the table. */
  private boolean reads(Object part) throws ReflectiveOperationException {
    if (++parts > MOST_PARTS) {
      return true;
    }
    if (part instanceof HadoopFsRelation) {
      return readsFiles(((HadoopFsRelation) part).location());
    }
    if ((part instanceof BaseRelation || part instanceof Table) && isHudis(part)) {
      return true;
    }
    Iterator<?> inside = null;
    if (part instanceof scala.collection.Iterable) {
      inside = ((scala.collection.Iterable<?>) part).iterator();
    } else if (part instanceof Product) {
      inside = ((Product) part).productIterator();
    }
    while (inside != null && inside.hasNext()) {
      if (reads(inside.next())) {
        return true;
      }
    }
    return false;
  }

  private static boolean isHudis(Object relation) {
    String name = relation.getClass().getName();
    return name.startsWith(HUDI) || name.startsWith(HUDI_IN_SPARK);
  }

  private boolean readsFiles(Object index) throws ReflectiveOperationException {
    // By its name: Scala's own versions have different lists.
    Object roots = called(index, "rootPaths");
    Iterator<?> each = ((scala.collection.Iterable<?>) roots).iterator();
    while (each.hasNext()) {
      String root = within((Path) each.next());
      if (root.startsWith(table) || table.startsWith(root)) {
        return true;
      }
    }
    return false;
  }

  private static Object called(Object on, String method) throws ReflectiveOperationException {
    try {
      return on.getClass().getMethod(method).invoke(on);
    } catch (InvocationTargetException failed) {
      throw new ReflectiveOperationException(failed.getCause());
    }
  }

  /** A folder without its scheme, which may have another name. */
  private static String within(Path folder) {
    String authority = folder.toUri().getAuthority();
    return authority + folder.toUri().getPath() + Path.SEPARATOR;
  }
}
