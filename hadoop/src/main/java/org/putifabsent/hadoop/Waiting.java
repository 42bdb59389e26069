package org.putifabsent.hadoop;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How long a thread has waited for a table's turn: through all of its tries, until it has the turn or asks no more.
 *
 * <p>Nobody says that no other try will follow. So whoever has not asked for longer than the pause between two tries
 * begins anew.
 */
final class Waiting {

  private static final Logger LOG = LoggerFactory.getLogger(Waiting.class);
  private static final long FIRST_SECONDS = 5;
  private static final long THEN_SECONDS = 60;
  private static final ThreadLocal<Map<String, Waiting>> OF_THIS_THREAD = ThreadLocal.withInitial(HashMap::new);

  private final Name table;
  private final LongSupplier clock;
  private final long began;
  private long pause;
  private long asked;
  private long says = FIRST_SECONDS;

  private Waiting(Name table, LongSupplier clock) {
    this.table = table;
    this.clock = clock;
    began = clock.getAsLong();
    asked = began;
  }

  /** Returns this thread's for a table, whose tries have pauses so long at most. */
  static Waiting of(Name table, Duration pause) {
    return of(table, pause, System::nanoTime);
  }

  static Waiting of(Name table, Duration pause, LongSupplier clock) {
    Map<String, Waiting> waiting = OF_THIS_THREAD.get();
    waiting.values().removeIf(each -> clock.getAsLong() - each.asked > each.pause);
    Waiting found = waiting.computeIfAbsent(table.address, address -> new Waiting(table, clock));
    found.pause = pause.toNanos();
    return found;
  }

  void asks() {
    asked = clock.getAsLong();
  }

  long nanos() {
    return clock.getAsLong() - began;
  }

  /** Says for whom it waits: after some seconds, and then each minute. */
  void isFor(String behind) {
    long seconds = TimeUnit.NANOSECONDS.toSeconds(nanos());
    if (seconds >= says) {
      LOG.warn("{} has waited {} s to write {}: for {}", Thread.currentThread().getName(), seconds, table, behind);
      says = seconds + THEN_SECONDS;
    }
  }

  void ends() {
    OF_THIS_THREAD.get().remove(table.address);
  }
}
