package org.putifabsent.hadoop;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A table's turn: its lock, as a thread of this process has it.
 *
 * <p>What that thread creates beneath the table's folder names the turn. It is the service that knows whether it is
 * still held; the signs of life that are given here only keep others from breaking it.
 *
 * <p>Where nobody else writes to the table, one that is left is kept for a moment: this process's next thread has the
 * same turn then, and waits for it, without a request.
 */
final class Turn {

  private static final Logger LOG = LoggerFactory.getLogger(Turn.class);
  private static final int BEATS_A_LEASE = 3;
  // Whoever waits should see soon that it is its turn: a pause is about a fifth of what was waited before.
  private static final double GROWTH = 1.25;
  private static final long LONGEST_PAUSE_MILLIS = 500;
  private static final int LONGEST_THREAD = 200;
  // Hudi takes its lock several times for one commit, a few requests apart. A process that is killed now leaves it held.
  private static final Duration KEPT = Duration.ofMillis(500);
  private static final Duration LONGEST_KEPT = Duration.ofSeconds(20);
  // Others ask each half second, at least.
  static final Duration YIELDS = Duration.ofSeconds(1);
  private static final long LOOKS_MILLIS = 5;
  private static final long EXITS_MILLIS = 2_000;
  private static final String OF_THIS_PROCESS = UUID.randomUUID().toString();
  private static final ThreadLocal<List<Turn>> HELD = ThreadLocal.withInitial(ArrayList::new);
  /** Those of this process that may be kept. One that has no holder is kept, and theirs who becomes that. */
  private static final Set<Turn> HERE = ConcurrentHashMap.newKeySet();
  private static final ScheduledThreadPoolExecutor BEATS = beats();
  /** Turns that this process had for longest, and since when their session leaves the next one to who else asks. */
  private static final Map<Turn, Elapsed> YIELDED = new ConcurrentHashMap<>();

  /** What the service calls it: no two turns are called the same. */
  final String called;

  private final Service service;
  private final Name table;
  /** Tests make it older. */
  volatile Elapsed since = new Elapsed();
  private final AtomicReference<Thread> holder = new AtomicReference<>(Thread.currentThread());
  final ScheduledFuture<?> beats;
  /** It is some thread's until that leaves it; else it is kept, or lent for a call. */
  private volatile boolean isLock = true;
  private volatile Elapsed left = since;
  /** When others may have seen it first, or have seen it live: for a lease after that nobody breaks it. */
  private volatile Elapsed lived;
  /** More threads of this process have had it, or wait for it: they see first when it is free. */
  volatile boolean isShared;
  private volatile boolean doubtful;
  private volatile boolean over;

  private Turn(Service service, Name table, String called, boolean alone, Elapsed asked) {
    this.service = service;
    this.table = table;
    this.called = called;
    lived = asked;
    long pause = service.lease().toNanos() / BEATS_A_LEASE;
    // It may have been taken as soon as that was asked for.
    long first = pause - asked.now().toNanos();
    beats = BEATS.scheduleWithFixedDelay(this::beatOrWarn, first, pause, TimeUnit.NANOSECONDS);
    HELD.get().add(this);
    if (alone && Exit.isSeen) {
      HERE.add(this);
    }
  }

  private static ScheduledThreadPoolExecutor beats() {
    ScheduledThreadPoolExecutor beats = new ScheduledThreadPoolExecutor(1, Turn::daemon);
    beats.setRemoveOnCancelPolicy(true);
    return beats;
  }

  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work, "putifabsent-turns");
    thread.setDaemon(true);
    return thread;
  }

  private static void inBackground(Runnable work) {
    daemon(work).start();
  }

  /** Returns the turn that this thread has of a table, or of the one that a name is in: the nearest. */
  static Optional<Turn> held(Service service, Name name) {
    List<Turn> held = HELD.get();
    held.removeIf(turn -> turn.over);
    return held.stream()
        .filter(turn -> turn.service.isFor(service) && name.isIn(turn.table))
        .max(Comparator.comparingInt(turn -> turn.table.address.length()));
  }

  /** Returns the turn that this thread has of just this table. */
  static Optional<Turn> of(Service service, Name table) {
    return held(service, table).filter(turn -> turn.table.address.equals(table.address));
  }

  /** Returns those that were kept, and are this thread's now. */
  private static Stream<Turn> claimed(Predicate<Turn> which) {
    return HERE.stream().filter(which).filter(turn -> turn.holder.compareAndSet(null, Thread.currentThread()));
  }

  /** Returns one that was kept, and is this thread's now; not what may be broken. */
  private static Optional<Turn> kept(Predicate<Turn> which) {
    Optional<Turn> kept = claimed(which).findFirst();
    if (kept.isPresent() && !kept.get().isStillKept()) {
      kept.get().release();
      return Optional.empty();
    }
    return kept;
  }

  /** Returns one that was kept, for one call; waits while another thread has it for one, which bars no other. */
  private static Optional<Turn> lent(Predicate<Turn> which) {
    Optional<Turn> kept = kept(which);
    while (kept.isEmpty()
        && HERE.stream().anyMatch(turn -> !turn.isLock && which.test(turn))
        && !Thread.currentThread().isInterrupted()) {
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(LOOKS_MILLIS));
      kept = kept(which);
    }
    return kept;
  }

  private boolean isOf(Service asked, Name other) {
    return service.isFor(asked) && table.address.equals(other.address);
  }

  /** What is asked of the service, in a turn that is called so, or in none. */
  interface Call {
    Service.Created in(Optional<String> turn) throws IOException, Refusal;
  }

  /**
   * Has something created in this thread's turn; where it has none, in one that is kept, for so long.
   *
   * <p>In a turn that is kept nothing is completed but by whoever has it, not even without a turn.
   */
  static boolean within(Service service, Name name, Call call) throws IOException, Refusal {
    Optional<Turn> own = held(service, name);
    Optional<Turn> turn =
        own.isPresent() ? own : lent(kept -> kept.service.isFor(service) && name.isIn(kept.table));
    boolean doubtful = true;
    try {
      Service.Created created = call.in(turn.map(each -> each.called));
      doubtful = !created.shown;
      return created.guarded;
    } finally {
      if (turn.isPresent()) {
        turn.get().doubtful |= doubtful;
      }
      if (own.isEmpty()) {
        turn.ifPresent(Turn::leave);
      }
    }
  }

  /** Releases what is kept of the tables in a folder, which goes. */
  static void releaseIn(Name folder) {
    claimed(turn -> turn.table.isIn(folder)).forEach(Turn::release);
  }

  /** Has what is kept be released when this process ends, which would hold others up for a lease. */
  static final class Exit {
    static volatile boolean isSeen = willBeSeen();

    private static boolean willBeSeen() {
      try {
        Runtime.getRuntime().addShutdownHook(new Thread(Turn::releaseKept, "putifabsent-exit"));
        return true;
      } catch (IllegalStateException | SecurityException unseen) {
        return false;
      }
    }
  }

  static void releaseKept() {
    Exit.isSeen = false;
    List<Thread> releasing = claimed(turn -> true).map(turn -> daemon(turn::release)).collect(Collectors.toList());
    releasing.forEach(Thread::start);
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(EXITS_MILLIS);
    for (Thread each : releasing) {
      try {
        each.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime())));
      } catch (InterruptedException exits) {
        return;
      }
    }
  }

  /**
   * Takes a table's turn for this thread, and waits for it so long; empty: somebody else has had it all the time.
   *
   * @throws IllegalStateException this thread has it already
   */
  static Optional<Turn> take(Service service, Name table, long nanos) throws IOException, InterruptedException {
    return take(service, table, nanos, Waiting.of(table, service.longestCall()));
  }

  /** Takes it as above, in one of several tries. */
  static Optional<Turn> take(Service service, Name table, long nanos, Waiting waiting)
      throws IOException, InterruptedException {
    return take(service, table, nanos, waiting, false, (token, thread) -> service.take(table, token, thread));
  }

  /**
   * Takes a table's turn as above, to begin something in it: not while others write the same.
   *
   * @param what "commit" or "clustering"
   * @param commits so many must be completed before a clustering is due; until then it waits for nobody
   */
  static Optional<Turn> toBegin(String what, long commits, Service service, Name table, long nanos, Waiting waiting)
      throws IOException, InterruptedException {
    return take(
        service,
        table,
        nanos,
        waiting,
        true,
        (token, thread) -> service.toBegin(what, commits, table, token, thread));
  }

  private interface Asking {
    Service.Taken ask(String token, String thread) throws IOException, Refusal;
  }

  private static Optional<Turn> take(
      Service service, Name table, long nanos, Waiting waiting, boolean queues, Asking asking)
      throws IOException, InterruptedException {
    if (of(service, table).isPresent()) {
      throw new IllegalStateException("this thread has the turn of " + table + " already");
    }
    String token = UUID.randomUUID().toString();
    String thread = thisThread();
    boolean known = true;
    Elapsed asked = new Elapsed();
    try {
      if (Thread.interrupted()) {
        throw new InterruptedException("interrupted before the turn of " + table + " was taken");
      }
      Pauses pauses = new Pauses(nanos, GROWTH, LONGEST_PAUSE_MILLIS);
      boolean waitsHere;
      do {
        waiting.asks();
        Optional<Turn> kept = kept(turn -> turn.isOf(service, table));
        if (kept.isPresent() && !queues) {
          kept.get().isLock = true;
          kept.get().isShared = true;
          HELD.get().add(kept.get());
          waiting.ends();
          return kept;
        }
        // Who is to begin asks whom it had better wait for.
        kept.ifPresent(Turn::release);
        Optional<Turn> here = HERE.stream().filter(turn -> turn.isOf(service, table)).findFirst();
        here.ifPresent(turn -> turn.isShared = true);
        here.ifPresent(turn -> waiting.isFor("another thread, which has " + turn));
        YIELDED.values().removeIf(since -> since.now().compareTo(YIELDS) >= 0);
        waitsHere = here.isPresent() || YIELDED.keySet().stream().anyMatch(turn -> turn.isOf(service, table));
        if (waitsHere) {
          continue;
        }
        asked = known ? new Elapsed() : asked;
        known = false;
        try {
          Service.Taken taken = asking.ask(token, thread);
          known = true;
          if (taken.turn.isPresent()) {
            waiting.ends();
            return Optional.of(new Turn(service, table, taken.turn.get(), taken.alone, asked));
          }
          waiting.isFor(taken.behind.orElse("another session or thread"));
        } catch (Refusal refusal) {
          if (!refusal.isWorthAnother()) {
            known = refusal.isDecided();
            throw refusal.asHadoopSays();
          }
          waiting.isFor("an answer of the service: " + refusal.getMessage());
        }
      } while (waitsHere ? pauses.goOn(LOOKS_MILLIS) : pauses.goOn());
      return Optional.empty();
    } catch (InterruptedException | Service.Interrupted gone) {
      Thread.interrupted();
      waiting.ends();
      // In the queue, it would hold up those behind it.
      known = known && !queues;
      throw (InterruptedException) new InterruptedException(gone.getMessage()).initCause(gone);
    } finally {
      if (!known) {
        inBackground(() -> giveUp(service, table, token, thread));
      }
    }
  }

  private static String thisThread() {
    Thread thread = Thread.currentThread();
    String said = OF_THIS_PROCESS + " " + thread.getId() + " " + thread.getName();
    return said.substring(0, Math.min(said.length(), LONGEST_THREAD));
  }

  /**
   * Gives back what may have been taken, and whose answer nobody waits for any more.
   *
   * <p>Who asks for nothing but the turn, by the same thread's name, leaves the queue of those who are to begin.
   */
  private static void giveUp(Service service, Name table, String token, String thread) {
    try {
      Optional<String> called = service.take(table, token, thread).turn;
      if (called.isPresent()) {
        service.release(table, called.get());
      }
    } catch (IOException | Refusal error) {
      LOG.debug("the turn of {} may be held by nobody until its lease is over", table, error);
    }
  }

  /** Whatever is thrown, for want of threads or of files, would end all further signs of life. */
  private void beatOrWarn() {
    try {
      beat();
    } catch (Exception | Error failed) {
      LOG.warn("{} gave no sign of life, and goes on to give the next", this, failed);
    }
  }

  private void beat() {
    Thread by = holder.get();
    // Another thread may have it by now, or nobody.
    if (by != null && !by.isAlive() && holder.get() == by) {
      LOG.warn("{} has ended, and left {} behind", by.getName(), this);
      inBackground(this::release);
      beats.cancel(false);
      return;
    }
    Elapsed sent = new Elapsed();
    service
        .beat(table, called)
        .whenComplete(
            (held, error) -> {
              if (error != null) {
                LOG.debug("{} gave no sign of life", this, error);
              } else if (held) {
                lived = sent;
              } else if (!over) {
                beats.cancel(false);
                doubtful = true;
                HERE.remove(this);
                LOG.warn("{} was broken: nothing is completed in it any more", this);
              }
            });
  }

  /**
   * Gives it back: in a moment, unless this process's next thread has it before, where no other session has written to
   * the table for long, and each call in it was answered; else at once. A call that was not could come late, and be done
   * in the next thread's turn. And what was completed and is not shown, only who takes another turn is sure to see.
   */
  void leave() {
    boolean isOld = since.now().compareTo(LONGEST_KEPT) >= 0;
    boolean mayBeKept = HERE.contains(this) && !doubtful && Exit.isSeen && !isOld && !mayBeBroken();
    if (!mayBeKept || Thread.currentThread().isInterrupted()) {
      boolean yields = isShared && isOld;
      if (yields) {
        YIELDED.put(this, new Elapsed());
      }
      release();
      if (yields) {
        // Others see it from now on.
        YIELDED.put(this, new Elapsed());
      }
      return;
    }
    HELD.get().remove(this);
    left = new Elapsed();
    isLock = false;
    holder.set(null);
    // After that, however long this thread stands still here: one that comes due before it is kept would do nothing.
    BEATS.schedule(this::expire, KEPT.toNanos(), TimeUnit.NANOSECONDS);
    if (!Exit.isSeen) {
      // This process ends, and has released what was kept before.
      claimed(turn -> turn == this).forEach(Turn::release);
    }
  }

  /** Whether this process stood still for long, or the way to the service did. */
  private boolean mayBeBroken() {
    return lived.now().compareTo(service.lease()) >= 0;
  }

  private boolean isStillKept() {
    return left.now().compareTo(KEPT) < 0 && !mayBeBroken();
  }

  /** One that was kept again since is not due yet. */
  private void expire() {
    if (!isStillKept() && holder.compareAndSet(null, Thread.currentThread()) && ends()) {
      inBackground(this::giveBack);
    }
  }

  /** Gives it back at once, once. Where that can't be, others get it after its lease: what was done in it is done. */
  void release() {
    if (!ends()) {
      return;
    }
    // Whoever is interrupted waits for nothing, and gives it back nevertheless.
    if (Thread.currentThread().isInterrupted() || !giveBack()) {
      inBackground(this::giveBack);
    }
  }

  /** Returns whether it goes on until now; it gives no more signs of life. */
  private synchronized boolean ends() {
    boolean went = !over;
    over = true;
    HERE.remove(this);
    beats.cancel(false);
    return went;
  }

  /** Returns false where it was interrupted. */
  private boolean giveBack() {
    try {
      if (!service.release(table, called)) {
        LOG.warn("{} was broken, or may have been given back by a request whose answer was lost", this);
      }
    } catch (Service.Interrupted interrupted) {
      return false;
    } catch (IOException | Refusal error) {
      LOG.warn("{} could not be given back: others get it after its lease", this, error);
    }
    return true;
  }

  @Override
  public String toString() {
    return "turn " + called + " of " + table;
  }
}
