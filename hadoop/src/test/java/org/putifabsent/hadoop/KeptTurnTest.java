package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;
import static org.putifabsent.hadoop.TurnTest.create;

import com.google.gson.JsonObject;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.AccessControlException;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** A turn that was left is this process's next thread's, for a moment, where nobody else writes to the table. */
public class KeptTurnTest {

  private static final String INSTANT = "20260101000000000";
  private static final long LONG = TimeUnit.MINUTES.toNanos(5);

  private File folder;
  private LiarService liar;
  private Configuration conf;
  private Service asked;

  @Before
  public void setUp() throws IOException {
    folder = new File(System.getProperty("hadoop.tmp.dir"), UUID.randomUUID().toString());
    TurnTest.makeTable(folder);
    conf = TurnTest.session();
    liar = new LiarService(conf.get(Settings.ADDRESS));
    liar.always("turns/take", LiarService.Fate.ALONE);
    conf.set(Settings.ADDRESS, liar.address);
    asked = TurnTest.asked(conf);
  }

  @After
  public void tearDown() {
    Turn.releaseIn(table());
    liar.close();
  }

  private Name table() {
    return Name.of(new Path("file:" + folder + "/.hoodie"));
  }

  private Path instant(String last) {
    return new Path("file:" + folder + "/.hoodie/timeline/" + INSTANT + last);
  }

  private Turn taken() throws IOException, InterruptedException {
    return Turn.take(asked, table(), LONG).orElseThrow();
  }

  /** Returns the filesystem of this session, which has begun the instant. */
  private FileSystem begun() throws IOException {
    FileSystem fs = RawNamesTest.guarded(conf);
    create(fs, instant(".commit.requested"));
    return fs;
  }

  private int asked(String call) {
    return Collections.frequency(liar.calls, call);
  }

  private static <T> T elsewhere(Callable<T> work) throws Exception {
    ExecutorService thread = Executors.newSingleThreadExecutor();
    try {
      return thread.submit(work).get();
    } finally {
      thread.shutdown();
    }
  }

  @Test
  public void theNextThreadHasItWithoutARequest() throws Exception {
    Turn turn = taken();
    turn.leave();
    assertThat(Turn.held(asked, table())).isEmpty();
    assertThat(elsewhere(() -> Turn.take(asked, table(), 0))).contains(turn);
    // It is the other thread's now.
    assertThat(Turn.take(asked, table(), 0)).isEmpty();
    assertThat(asked("turns/release")).isZero();
    turn.release();
    assertThat(asked("turns/release")).isEqualTo(1);
  }

  @Test
  public void anotherSessionGetsItInAMoment() throws Exception {
    taken().leave();
    Turn other = Turn.take(TurnTest.asked(TurnTest.session()), table(), LONG).orElseThrow();
    assertThat(asked("turns/release")).isEqualTo(1);
    other.release();
  }

  @Test
  public void whereOthersWriteItIsGivenBackAtOnce() throws Exception {
    liar.always("turns/take", LiarService.Fate.ANSWERED);
    taken().leave();
    assertThat(asked("turns/release")).isEqualTo(1);
  }

  @Test
  public void whoBeginsSomethingAsksWhomItHadBetterWaitFor() throws Exception {
    taken().leave();
    Turn begun =
        Turn.toBegin("commit", 4, asked, table(), LONG, Waiting.of(table(), asked.longestCall())).orElseThrow();
    assertThat(liar.calls).containsExactly("turns/take", "turns/release", "turns/take");
    begun.release();
  }

  @Test
  public void afterACallThatWasNotAnsweredItIsGivenBackAtOnce() throws Exception {
    conf.set(Settings.DEADLINE, "1s");
    FileSystem fs = begun();
    Turn turn = taken();
    liar.next("create", LiarService.Fate.UNKNOWN);
    liar.always("resolve", LiarService.Fate.UNKNOWN);
    assertThatThrownBy(() -> create(fs, instant("_20260101000000001.commit")))
        .isInstanceOf(OutcomeUnknownException.class);
    turn.leave();
    assertThat(asked("turns/release")).isEqualTo(1);
  }

  /** Who takes a turn finds all there that was completed before: it lists the store itself, to look for conflicts. */
  @Test
  public void afterACommitThatTheStoreDoesNotShowItIsGivenBackAtOnce() throws Exception {
    FileSystem fs = begun();
    Turn turn = taken();
    liar.next("create", LiarService.Fate.UNSHOWN);
    create(fs, instant("_20260101000000001.commit"));
    turn.leave();
    assertThat(asked("turns/release")).isEqualTo(1);
  }

  @Test
  public void afterACommitThatIsKnownLaterAndThatTheStoreDoesNotShowItIsGivenBackAtOnce() throws Exception {
    FileSystem fs = begun();
    Turn turn = taken();
    liar.next("create", LiarService.Fate.UNKNOWN);
    liar.next("resolve", LiarService.Fate.UNSHOWN);
    create(fs, instant("_20260101000000001.commit"));
    turn.leave();
    assertThat(asked("turns/release")).isEqualTo(1);
  }

  @Test
  public void aThreadWithoutATurnCompletesInIt() throws Exception {
    FileSystem fs = begun();
    Turn turn = taken();
    turn.leave();
    create(fs, instant("_20260101000000001.commit"));
    assertThat(fs.exists(instant("_20260101000000001.commit"))).isTrue();
    assertThat(taken()).isSameAs(turn);
    turn.release();
  }

  @Test
  public void whatNobodyHasAnyMoreIsNobodys() throws Exception {
    FileSystem fs = begun();
    taken().leave();
    Turn.releaseIn(Name.of(new Path("file:" + folder)));
    create(fs, instant("_20260101000000001.commit"));
    assertThat(asked("turns/release")).isEqualTo(1);
  }

  @Test
  public void aTableThatIsRemovedAndMadeAgainHasTurnsOfItsOwn() throws Exception {
    FileSystem fs = begun();
    Turn before = taken();
    before.leave();
    assertThat(fs.delete(new Path("file:" + folder + "/.hoodie"), true)).isTrue();
    create(fs, new Path("file:" + folder + "/.hoodie/hoodie.properties"));
    create(fs, instant(".commit.requested"));
    Turn turn = taken();
    assertThat(turn.called).isNotEqualTo(before.called);
    create(fs, instant("_20260101000000001.commit"));
    turn.release();
  }

  /** Its ledger goes along, so nobody would give it back there; and here that would leave a record behind. */
  @Test
  public void aTableThatIsMovedTakesNoTurnAlong() throws Exception {
    FileSystem fs = begun();
    taken().leave();
    File moved = new File(folder + "-moved");
    assertThat(fs.rename(new Path("file:" + folder), new Path("file:" + moved))).isTrue();
    assertThat(asked("turns/release")).isEqualTo(1);
    Turn turn = Turn.take(asked, Name.of(new Path("file:" + moved + "/.hoodie")), 0).orElseThrow();
    turn.release();
    assertThat(folder).doesNotExist();
  }

  @Test(timeout = 60_000)
  public void whoWaitsInThisProcessHasItNextWithoutARequest() throws Exception {
    Turn turn = taken();
    List<Turn> got = new ArrayList<>();
    Thread waiting =
        new Thread(
            () -> {
              try {
                got.add(taken());
              } catch (IOException | InterruptedException error) {
                throw new AssertionError(error);
              }
            });
    waiting.start();
    while (waiting.getState() != Thread.State.TIMED_WAITING) {
      Thread.sleep(1);
    }
    turn.leave();
    waiting.join();
    assertThat(got).containsExactly(turn);
    assertThat(liar.calls).containsExactly("turns/take");
    turn.release();
  }

  @Test
  public void oneThatWasBrokenIsNobodys() throws Exception {
    liar.always("turns/beat", LiarService.Fate.REQUEST_LOST);
    FileSystem fs = begun();
    Configuration hasty = new Configuration(conf);
    hasty.set(Settings.LEASE, "1s");
    Turn turn = Turn.take(TurnTest.asked(hasty), table(), LONG).orElseThrow();
    Turn other = Turn.take(TurnTest.asked(TurnTest.session()), table(), LONG).orElseThrow();
    turn.leave();
    assertThat(Turn.take(asked, table(), 0)).isEmpty();
    assertThatThrownBy(() -> create(fs, instant("_20260101000000001.commit")))
        .isInstanceOf(AccessControlException.class);
    other.release();
  }

  @Test
  public void eightThreadsCountWithoutALoss() throws Exception {
    File counter = new File(folder, "counter");
    Files.write(counter.toPath(), "0".getBytes(StandardCharsets.UTF_8));
    ExecutorService threads = Executors.newFixedThreadPool(8);
    List<Future<?>> counting = new ArrayList<>();
    for (int thread = 0; thread < 8; thread++) {
      counting.add(
          threads.submit(
              () -> {
                for (int time = 0; time < 25; time++) {
                  Turn turn = taken();
                  TurnTest.count(counter);
                  turn.leave();
                }
                return null;
              }));
    }
    for (Future<?> each : counting) {
      each.get();
    }
    threads.shutdown();
    assertThat(counter).hasContent("200");
    assertThat(asked("turns/release")).isLessThan(100);
  }

  /** Two threads that have no lock complete beside each other, as they may where nobody has it. */
  @Test(timeout = 60_000)
  public void threadsWithoutATurnWaitForOneAnotherInIt() throws Exception {
    FileSystem fs = begun();
    taken().leave();
    List<IOException> failed = new ArrayList<>();
    Thread second =
        new Thread(
            () -> {
              try {
                create(fs, instant("_20260101000000001.commit"));
              } catch (IOException error) {
                failed.add(error);
              }
            });
    Turn.within(
        asked,
        table(),
        called -> {
          second.start();
          try {
            second.join(2_000);
          } catch (InterruptedException error) {
            throw new AssertionError(error);
          }
          return new Service.Created(true, new JsonObject());
        });
    second.join();
    assertThat(failed).isEmpty();
  }

  @Test(timeout = 120_000)
  public void threadsThatHandItOnLeaveAnotherSessionAChance() throws Exception {
    AtomicBoolean ends = new AtomicBoolean();
    ExecutorService threads = Executors.newFixedThreadPool(3);
    Callable<Void> busy =
        () -> {
          while (!ends.get()) {
            Turn turn = taken();
            Thread.sleep(50);
            turn.leave();
          }
          return null;
        };
    List<Future<Void>> all = List.of(threads.submit(busy), threads.submit(busy), threads.submit(busy));
    Thread.sleep(1_000);
    Optional<Turn> other = Turn.take(TurnTest.asked(TurnTest.session()), table(), TimeUnit.SECONDS.toNanos(100));
    ends.set(true);
    other.ifPresent(Turn::release);
    for (Future<Void> each : all) {
      each.get();
    }
    threads.shutdown();
    assertThat(other).isPresent();
  }

  @Test(timeout = 120_000)
  public void aThreadThatHadItForLongLeavesAnotherSessionAChanceBeforeThoseThatWaitHere() throws Exception {
    Turn turn = taken();
    turn.since = new Elapsed(System.nanoTime() - TimeUnit.SECONDS.toNanos(21), System.currentTimeMillis());
    List<String> got = Collections.synchronizedList(new ArrayList<>());
    ExecutorService threads = Executors.newSingleThreadExecutor();
    Future<?> here =
        threads.submit(
            () -> {
              Turn next = Turn.take(asked, table(), LONG).orElseThrow();
              got.add("a thread of this process");
              next.release();
              return null;
            });
    while (!turn.isShared) {
      Thread.sleep(5);
    }
    Service another = TurnTest.asked(TurnTest.session());
    Elapsed left = new Elapsed();
    turn.leave();
    // In that time a thread that waits here looks many times, and another session's maybe not once.
    Thread.sleep(200);
    Turn next = Turn.take(another, table(), LONG).orElseThrow();
    boolean isInTime = left.now().compareTo(Turn.YIELDS) < 0;
    got.add("another session");
    next.release();
    here.get();
    threads.shutdown();
    assumeThat(isInTime).isTrue();
    assertThat(got).containsExactly("another session", "a thread of this process");
  }

  @Test
  public void aProcessThatEndsWhileATurnIsLeftLeavesNothingBehind() throws Exception {
    AtomicBoolean leaves = new AtomicBoolean();
    List<Exception> failed = new ArrayList<>();
    Runnable work =
        () -> {
          try {
            Turn turn = taken();
            leaves.set(true);
            turn.leave();
          } catch (IOException | InterruptedException error) {
            failed.add(error);
          }
        };
    Thread thread =
        new Thread(work) {
          /** Is looked at when it has been decided that the turn may be kept. */
          @Override
          public boolean isInterrupted() {
            if (leaves.getAndSet(false)) {
              Turn.releaseKept();
            }
            return super.isInterrupted();
          }
        };
    try {
      thread.start();
      thread.join();
    } finally {
      Turn.Exit.isSeen = true;
    }
    assertThat(failed).isEmpty();
    assertThat(asked("turns/release")).isEqualTo(1);
  }

  /** A process that takes and leaves a turn while it ends. */
  public static void main(String[] said) {
    Configuration conf = new Configuration();
    conf.set(Settings.ADDRESS, said[0]);
    conf.set(Settings.SECRET, ServiceProcess.SECRET);
    conf.set(Settings.SESSION, UUID.randomUUID().toString());
    Name table = Name.of(new Path(said[1]));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> takeAndLeave(conf, table, 500)));
    takeAndLeave(conf, table, 0);
  }

  private static void takeAndLeave(Configuration conf, Name table, long millis) {
    try {
      Thread.sleep(millis);
      Turn.take(TurnTest.asked(conf), table, LONG).orElseThrow().leave();
    } catch (IOException | InterruptedException error) {
      throw new AssertionError(error);
    }
  }

  @Test(timeout = 60_000)
  public void aProcessThatEndsLeavesNothingBehind() throws Exception {
    String java = System.getProperty("java.home") + "/bin/java";
    String classes = System.getProperty("java.class.path");
    Process process =
        new ProcessBuilder(java, "-cp", classes, KeptTurnTest.class.getName(), liar.address, table().address)
            .redirectErrorStream(true)
            .redirectOutput(new File(folder, "child"))
            .start();
    assertThat(process.waitFor()).isZero();
    assertThat(liar.calls).containsExactly("turns/take", "turns/release", "turns/take", "turns/release");
  }
}
