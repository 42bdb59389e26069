package org.putifabsent.hadoop;

import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.Dependency;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LeafNode;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.sources.BaseRelation;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;

/**
 * Whether the statement that this thread of Spark's runs writes a table blindly: none of its rows come from there.
 *
 * <p>Hudi compares a commit with those that were completed after it began. Whoever has read the table, and then waits,
 * would write over what others have completed meanwhile, and hear nothing of it: {@code UPDATE}, {@code MERGE}, {@code
 * DELETE}, {@code ALTER}, and queries that write into a table what they have read there. So whatever is not known to be
 * blind is not.
 */
final class SparkWrite {

  private static final String INSERTS = "InsertIntoHoodieTableCommand";
  private static final Set<String> WRITES =
      Set.of(INSERTS, "SaveIntoDataSourceCommand", "CreateHoodieTableAsSelectCommand");
  private static final Set<String> LEAVES =
      Set.of("LocalRelation", "LogicalRDD", "LogicalRelation", "OneRowRelation", "Range");
  private static final Set<String> MADE_HERE = Set.of("ParallelCollectionRDD", "EmptyRDD");
  private static final String HUDI = "org.apache.hudi.";
  private static final int MOST_PARTS = 100_000;

  private final String table;
  private int parts;

  private SparkWrite(String table) {
    this.table = table;
  }

  /** Returns true where that is known. */
  static boolean isBlind(String table) throws ReflectiveOperationException {
    Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isEmpty()) {
      return false;
    }
    String running = session.get().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    QueryExecution query = running == null ? null : SQLExecution.getQueryExecution(Long.parseLong(running));
    return query != null && new SparkWrite(within(new Path(table))).isBlind(query.analyzed());
  }

  private boolean isBlind(Product written) throws ReflectiveOperationException {
    String command = written.getClass().getSimpleName();
    if (!WRITES.contains(command)) {
      return false;
    }
    Iterator<Object> found = written.productIterator();
    // The first relation is the table into which it inserts.
    boolean isTarget = command.equals(INSERTS);
    while (found.hasNext()) {
      Object part = found.next();
      if (isTarget && part instanceof LogicalRelation) {
        isTarget = false;
      } else if (reads(part)) {
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
      return readsIndex(((HadoopFsRelation) part).location());
    }
    if (part instanceof BaseRelation) {
      return part.getClass().getName().startsWith(HUDI);
    }
    if (part instanceof RDD) {
      return readsRows((RDD<?>) part);
    }
    String kind = part == null ? "" : part.getClass().getSimpleName();
    if (part instanceof LeafNode && !LEAVES.contains(kind)) {
      return true;
    }
    if (kind.equals("LocalRelation")) {
      return false;
    }
    return readsAny(part);
  }

  private boolean readsAny(Object whole) throws ReflectiveOperationException {
    Iterator<?> inside = null;
    if (whole instanceof scala.collection.Iterable) {
      inside = ((scala.collection.Iterable<?>) whole).iterator();
    } else if (whole instanceof Product) {
      inside = ((Product) whole).productIterator();
    }
    while (inside != null && inside.hasNext()) {
      if (reads(inside.next())) {
        return true;
      }
    }
    return false;
  }

  /** Whether rows come from anything but this program's own memory. */
  private boolean readsRows(RDD<?> rows) throws ReflectiveOperationException {
    boolean isFirst = true;
    Iterator<?> each = ((scala.collection.Iterable<?>) called(rows, "dependencies")).iterator();
    while (each.hasNext()) {
      isFirst = false;
      if (++parts > MOST_PARTS || readsRows(((Dependency<?>) each.next()).rdd())) {
        return true;
      }
    }
    return isFirst && !MADE_HERE.contains(rows.getClass().getSimpleName());
  }

  private boolean readsIndex(Object index) throws ReflectiveOperationException {
    Iterator<?> each = ((scala.collection.Iterable<?>) called(index, "rootPaths")).iterator();
    while (each.hasNext()) {
      String root = within((Path) each.next());
      if (root.startsWith(table) || table.startsWith(root)) {
        return true;
      }
    }
    return false;
  }

  /** By its name: Scala's own versions have different lists. */
  private static Object called(Object on, String method) throws ReflectiveOperationException {
    return on.getClass().getMethod(method).invoke(on);
  }

  /** A folder without its scheme, which may have another name. */
  private static String within(Path folder) {
    return folder.toUri().getAuthority() + folder.toUri().getPath() + Path.SEPARATOR;
  }
}
