package org.putifabsent.hadoop;

import java.util.Objects;
import java.util.concurrent.Callable;
import org.apache.hadoop.fs.Path;
import org.apache.paimon.catalog.CatalogLock;
import org.apache.paimon.catalog.CatalogLockContext;
import org.apache.paimon.catalog.CatalogLockFactory;
import org.apache.paimon.options.CatalogOptions;
import org.apache.paimon.options.Options;

/** Paimon's catalog lock is the table's turn: {@code lock.enabled=true}, {@code lock.type=putifabsent}. */
public final class PaimonLockFactory implements CatalogLockFactory {

  private static final long serialVersionUID = 1L;

  @Override
  public String identifier() {
    return "putifabsent";
  }

  @Override
  public CatalogLock createLock(CatalogLockContext context) {
    return new Lock(context.options());
  }

  private static final class Lock implements CatalogLock {
    private final Options options;

    Lock(Options options) {
      this.options = options;
    }

    @Override
    public <T> T runWithLock(String database, String table, Callable<T> work) throws Exception {
      // Branches lie in their table's folder, and are said after a dollar.
      String folder = database + ".db/" + table.split("\\$", 2)[0];
      String warehouse = Objects.requireNonNull(options.get(CatalogOptions.WAREHOUSE), "warehouse must be set");
      CatalogTurns turns = CatalogTurns.of(options.toMap(), new Path(warehouse + "/" + folder));
      Turn turn = turns.take(options.get(CatalogOptions.LOCK_ACQUIRE_TIMEOUT)).orElseThrow(turns::timeout);
      try {
        return work.call();
      } finally {
        turn.release();
      }
    }

    @Override
    public void close() {
      // A turn ends with its work.
    }
  }
}
