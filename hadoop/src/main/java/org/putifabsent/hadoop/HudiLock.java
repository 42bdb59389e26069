package org.putifabsent.hadoop;

import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.common.lock.LockProvider;
import org.apache.hudi.exception.HoodieLockException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Hudi's lock is the table's turn, whichever Hudi it is.
 *
 * <p>A turn belongs to the thread that took it, through whichever provider: Hudi closes a provider after each
 * {@code unlock}, while other threads wait in it, and has them unlock by the next one. And it unlocks in threads that
 * never got the lock.
 *
 * <p>A table in a scheme that nothing guards has no turns: its lock is Hudi's own, as if this had not been named.
 */
abstract class HudiLock implements LockProvider<String> {

  private static final Logger LOG = LoggerFactory.getLogger(HudiLock.class);
  private static final String BASE_PATH = "hoodie.base.path";
  // A writer's schema is older than its lock: with this, columns that are added while it waits would be lost.
  private static final String DROPS = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop";
  private static final long PLANS_NANOS = TimeUnit.MINUTES.toNanos(2);
  private static final String WAITS = "hoodie.write.lock.wait_time_ms";
  private static final String TRIES = "hoodie.write.lock.client.num_retries";
  private static final String COMMITS = "hoodie.clustering.inline.max.commits";
  private static final String BETWEEN = "hoodie.write.lock.client.wait_time_ms_between_retry";

  private final Service service;
  private final String base;
  private final Name table;
  private final LockProvider<?> stock;
  private final long commits;
  private final long patience;
  private final Duration pause;
  private final boolean dropsColumns;
  private final Properties options;

  HudiLock(LockConfiguration lock, Configuration conf, Supplier<LockProvider<?>> hudis) {
    options = lock.getConfig();
    base = options.getProperty(BASE_PATH);
    if (base == null) {
      throw new HoodieLockException(BASE_PATH + " must say which table's turn is taken");
    }
    commits = number(lock, COMMITS, 4);
    dropsColumns = Boolean.parseBoolean(options.getProperty(DROPS));
    long waits = number(lock, WAITS, 60_000);
    long between = number(lock, BETWEEN, 5_000);
    patience = TimeUnit.MILLISECONDS.toNanos((between + waits) * number(lock, TRIES, 50));
    pause = Duration.ofMillis(between);
    // A table that is still to be made can be told to be Hudi's by this folder alone.
    table = Name.of(new Path(base, ".hoodie"), conf);
    if (!Guard.isMounted(table.scheme(), conf)) {
      LOG.warn("{} is in no scheme that is guarded here: its lock is Hudi's own, and good in this process only", base);
      service = null;
      stock = hudis.get();
      return;
    }
    stock = null;
    try {
      service = Service.of(Settings.of(conf));
    } catch (IOException error) {
      throw new HoodieLockException(error.getMessage(), error);
    }
  }

  @Override
  public boolean tryLock() {
    try {
      return tryLock(0, TimeUnit.NANOSECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  @Override
  public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
    if (stock != null) {
      return stock.tryLock(time, unit);
    }
    Optional<String> begins = dropsColumns ? Optional.empty() : HudiBeginning.of(base, options);
    return tryLock(begins, unit.toNanos(time));
  }

  /** Takes the turn: for part of Hudi's patience only when nobody is in the way of what it begins, then in any case. */
  boolean tryLock(Optional<String> begins, long nanos) throws InterruptedException {
    long end = System.nanoTime() + nanos;
    Waiting waiting = Waiting.of(table, pause.plus(service.longestCall()));
    long left = begins.map(this::patienceToBegin).orElse(0L) - waiting.nanos();
    try {
      Optional<Turn> turn = Optional.empty();
      if (left > 0) {
        turn = Turn.toBegin(begins.get(), commits, service, table, Math.min(nanos, left), waiting);
      }
      if (turn.isEmpty() && left <= nanos) {
        turn = Turn.take(service, table, end - System.nanoTime(), waiting);
      }
      return turn.isPresent();
    } catch (IOException | IllegalStateException error) {
      throw new HoodieLockException(error.getMessage(), error);
    }
  }

  /** Hudi's patience is not to be over before a commit begins; a clustering may be planned another time. */
  private long patienceToBegin(String what) {
    long most = patience / 4 * 3;
    return what.equals(HudiBeginning.CLUSTERING) ? Math.min(most, PLANS_NANOS) : most;
  }

  private static long number(LockConfiguration lock, String key, long otherwise) {
    try {
      return Math.max(0, Long.parseLong(lock.getConfig().getProperty(key, Long.toString(otherwise))));
    } catch (NumberFormatException wrong) {
      return otherwise;
    }
  }

  /** Gives back the turn that this thread has, if it has one. */
  @Override
  public void unlock() {
    if (stock != null) {
      stock.unlock();
      return;
    }
    Turn.of(service, table).ifPresent(Turn::leave);
  }

  @Override
  public void close() {
    if (stock != null) {
      stock.close();
      return;
    }
    unlock();
  }

  @Override
  public String getLock() {
    return stock != null ? String.valueOf(stock.getLock()) : "the turn of " + table;
  }

  @Override
  public String getCurrentOwnerLockInfo() {
    if (stock != null) {
      return stock.getCurrentOwnerLockInfo();
    }
    return Turn.of(service, table).map(Turn::toString).orElse("another session or thread has " + getLock());
  }
}
