package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import java.io.File;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.security.AccessControlException;
import org.apache.hadoop.test.GenericTestUtils.LogCapturer;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import org.slf4j.LoggerFactory;

/** One thread of one session has a table's turn, and what it completes after that was broken is refused. */
public class TurnTest {

  private static final String INSTANT = "20260101000000000";
  private static final long LONG = TimeUnit.MINUTES.toNanos(5);

  private final List<Turn> taken = new ArrayList<>();
  private File folder;
  private LiarService liar;

  @Before
  public void setUp() throws IOException {
    folder = new File(System.getProperty("hadoop.tmp.dir"), UUID.randomUUID().toString());
    makeTable(folder);
    liar = new LiarService(session().get(Settings.ADDRESS));
  }

  @After
  public void tearDown() {
    // A thread of these tests goes on to the next one.
    taken.forEach(Turn::release);
    liar.close();
  }

  static void makeTable(File folder) throws IOException {
    assertThat(new File(folder, ".hoodie/timeline").mkdirs()).isTrue();
    File properties = new File(folder, ".hoodie/hoodie.properties");
    Files.write(properties.toPath(), "hoodie.table.version=9\n".getBytes(StandardCharsets.UTF_8));
  }

  private Name table() {
    return Name.of(new Path("file:" + folder + "/.hoodie"));
  }

  private Path instant(String last) {
    return new Path("file:" + folder + "/.hoodie/timeline/" + INSTANT + last);
  }

  static Configuration session() {
    return ServiceProcess.session(RawLocalFileSystem.class);
  }

  private static Configuration session(String address) {
    return ServiceProcess.session(address, RawLocalFileSystem.class);
  }

  static Service asked(Configuration conf) throws IOException {
    return Service.of(Settings.of(conf));
  }

  private static Service stranger() throws IOException {
    return asked(session());
  }

  private Optional<Turn> take(Service asked, long nanos) throws IOException, InterruptedException {
    Optional<Turn> turn = Turn.take(asked, table(), nanos);
    turn.ifPresent(taken::add);
    return turn;
  }

  static void create(FileSystem fs, Path path) throws IOException {
    try (FSDataOutputStream out = fs.create(path, false)) {
      out.writeBytes("{}");
    }
  }

  /** Returns the filesystem of a session that has begun the instant. */
  private FileSystem begun(Configuration conf) throws IOException {
    FileSystem fs = RawNamesTest.guarded(conf);
    create(fs, instant(".commit.requested"));
    return fs;
  }

  private void untilAsked(String call, int times) throws InterruptedException {
    while (liar.calls.stream().filter(call::equals).count() < times) {
      Thread.sleep(10);
    }
  }

  /** Returns what calls for a turn said of a field, each time. */
  private List<String> said(String field) {
    Pattern pattern = Pattern.compile("\"" + field + "\":\"([^\"]*)\"");
    return liar.bodies.stream()
        .flatMap(body -> pattern.matcher(body).results().map(found -> found.group(1)))
        .collect(Collectors.toList());
  }

  /** Counts one on in a file: of two at once, one would be lost. */
  static void count(File counter) throws IOException, InterruptedException {
    int seen = Integer.parseInt(new String(Files.readAllBytes(counter.toPath()), StandardCharsets.UTF_8));
    Thread.sleep(1);
    Files.write(counter.toPath(), Integer.toString(seen + 1).getBytes(StandardCharsets.UTF_8));
  }

  private long records(String kind) throws IOException {
    File[] records = new File(folder, ".hoodie/.putifabsent/ledger").listFiles();
    long count = 0;
    for (File record : records == null ? new File[0] : records) {
      count += new String(Files.readAllBytes(record.toPath()), StandardCharsets.UTF_8).contains(kind) ? 1 : 0;
    }
    return count;
  }

  // --- whose it is

  @Test
  public void oneSessionHasItUntilItGivesItBack() throws Exception {
    Turn turn = take(stranger(), 0).orElseThrow();
    Service other = stranger();
    assertThat(take(other, 0)).isEmpty();
    assertThat(take(other, TimeUnit.MILLISECONDS.toNanos(300))).isEmpty();
    turn.release();
    turn.release();
    assertThat(take(other, LONG).orElseThrow().called).isNotEqualTo(turn.called);
    assertThat(records("RELEASE")).isEqualTo(1);
  }

  @Test
  public void whoWaitsGetsItWhenItIsGivenBack() throws Exception {
    Turn turn = take(stranger(), 0).orElseThrow();
    Service other = asked(session(liar.address));
    ExecutorService threads = Executors.newSingleThreadExecutor();
    Future<Optional<Turn>> waiting = threads.submit(() -> take(other, LONG));
    while (liar.calls.stream().filter("turns/take"::equals).count() < 2) {
      Thread.sleep(10);
    }
    assertThat(waiting.isDone()).isFalse();
    turn.release();
    assertThat(waiting.get()).isPresent();
    threads.shutdown();
  }

  @Test
  public void itIsAThreadsOwn() throws Exception {
    Service asked = stranger();
    Turn turn = take(asked, 0).orElseThrow();
    assertThatThrownBy(() -> take(asked, 0)).isInstanceOf(IllegalStateException.class);
    assertThat(Turn.held(asked, table())).contains(turn);
    ExecutorService threads = Executors.newSingleThreadExecutor();
    assertThat(threads.submit(() -> Turn.held(asked, table())).get()).isEmpty();
    assertThat(threads.submit(() -> take(asked, 0)).get()).isEmpty();
    threads.shutdown();
    assertThat(Turn.held(stranger(), table())).isEmpty();
    turn.release();
    assertThat(Turn.held(asked, table())).isEmpty();
  }

  @Test
  public void ofTwoTablesTheNearerOneIsNamed() throws Exception {
    Service asked = stranger();
    Turn outer = take(asked, 0).orElseThrow();
    Name metadata = Name.of(new Path(table().address, "metadata/.hoodie"));
    assertThat(new File(folder, ".hoodie/metadata/.hoodie").mkdirs()).isTrue();
    Turn inner = Turn.take(asked, metadata, 0).orElseThrow();
    taken.add(inner);
    assertThat(Turn.held(asked, Name.of(instant("_1.commit")))).contains(outer);
    assertThat(Turn.held(asked, Name.of(new Path(metadata.address, "timeline/1_1.commit")))).contains(inner);
    assertThat(Turn.held(asked, Name.of(new Path("file:" + folder + "/.hoodie2/1.commit")))).isEmpty();
  }

  @Test
  public void eightThreadsOfTwoSessionsCountWithoutALoss() throws Exception {
    Service[] sessions = {stranger(), stranger()};
    File counter = new File(folder, "counter");
    Files.write(counter.toPath(), "0".getBytes(StandardCharsets.UTF_8));
    ExecutorService threads = Executors.newFixedThreadPool(8);
    List<Future<?>> counting = new ArrayList<>();
    for (int thread = 0; thread < 8; thread++) {
      Service asked = sessions[thread % 2];
      counting.add(
          threads.submit(
              () -> {
                for (int time = 0; time < 3; time++) {
                  Turn turn = Turn.take(asked, table(), LONG).orElseThrow();
                  count(counter);
                  turn.release();
                }
                return null;
              }));
    }
    for (Future<?> each : counting) {
      each.get();
    }
    threads.shutdown();
    assertThat(counter).hasContent("24");
    assertThat(records("BREAK")).isZero();
  }

  // --- what is done in it

  @Test
  public void whatItsHolderCompletesSaysSoAndNobodyElseCompletesAnything() throws Exception {
    Configuration conf = session();
    FileSystem fs = begun(conf);
    take(asked(conf), 0).orElseThrow();
    FileSystem other = RawNamesTest.guarded(session());
    Path theirs = new Path("file:" + folder + "/.hoodie/timeline/20260101000000001.commit.requested");
    create(other, theirs);
    assertThatThrownBy(
            () -> create(other, new Path(theirs.getParent(), "20260101000000001_20260101000000002.commit")))
        .isInstanceOf(AccessControlException.class);
    // Nor does another thread of the same session.
    ExecutorService threads = Executors.newSingleThreadExecutor();
    Path completed = instant("_20260101000000001.commit");
    Throwable refused = threads.submit(() -> catchThrowable(() -> create(fs, completed))).get();
    assertThat(refused).isInstanceOf(AccessControlException.class);
    threads.shutdown();
    create(fs, completed);
    assertThat(fs.exists(completed)).isTrue();
  }

  @Test
  public void aRenameOfItsHolderSaysSoToo() throws Exception {
    Configuration conf = session();
    FileSystem fs = begun(conf);
    take(asked(conf), 0).orElseThrow();
    Path temporary = instant("_20260101000000001.commit.temporary");
    create(fs, temporary);
    assertThat(fs.rename(temporary, instant("_20260101000000001.commit"))).isTrue();
  }

  @Test
  public void whoeverGivesNoSignOfLifeIsBrokenAndCompletesNothing() throws Exception {
    // Its signs of life are lost on the way: as if its process stood still.
    liar.always("turns/beat", LiarService.Fate.REQUEST_LOST);
    Configuration conf = session(liar.address);
    conf.set(Settings.LEASE, "1s");
    FileSystem fs = begun(conf);
    Turn broken = take(asked(conf), 0).orElseThrow();
    assertThat(take(stranger(), LONG)).isPresent();
    Path completed = instant("_20260101000000001.commit");
    assertThatThrownBy(() -> create(fs, completed)).isInstanceOf(AccessControlException.class);
    assertThat(fs.exists(completed)).isFalse();
    broken.release();
    assertThat(take(stranger(), 0)).isEmpty();
  }

  @Test
  public void whoGivesSignsOfLifeIsNotBroken() throws Exception {
    Configuration conf = session(liar.address);
    conf.set(Settings.LEASE, "12s");
    Turn turn = take(asked(conf), 0).orElseThrow();
    Service other = stranger();
    while (liar.calls.stream().filter("turns/beat"::equals).count() < 4) {
      assertThat(take(other, 0)).isEmpty();
      Thread.sleep(10);
    }
    assertThat(asked(conf).release(table(), turn.called)).isTrue();
  }

  @Test
  public void aTurnWhoseAnswerCameLateGivesItsFirstSignOfLifeSoonerByThat() throws Exception {
    liar.next("turns/take", LiarService.Fate.STALLED);
    Configuration conf = session(liar.address);
    conf.set(Settings.DEADLINE, "8s");
    Turn turn = take(asked(conf), LONG).orElseThrow();
    assertThat(liar.calls).startsWith("turns/take", "turns/take");
    // Its first answer was waited for for two seconds.
    assertThat(turn.beats.getDelay(TimeUnit.SECONDS)).isLessThan(18);
  }

  @Test(timeout = 120_000)
  public void signsOfLifeThatOneServiceDoesNotTakeGoToAnother() throws Exception {
    liar.always("turns/beat", LiarService.Fate.BUSY);
    try (ServiceProcess second = ServiceProcess.start(0, 100)) {
      Configuration conf = session(liar.address + "," + second.address);
      conf.set(Settings.LEASE, "12s");
      take(asked(conf), 0).orElseThrow();
      while (!second.answered().containsKey("turns/beat")) {
        Thread.sleep(10);
      }
      assertThat(liar.calls.stream().filter("turns/beat"::equals).count()).isEqualTo(1);
    }
  }

  @Test(timeout = 120_000)
  public void aSignOfLifeThatCanNotBeGivenIsNotTheLast() throws Exception {
    Configuration conf = session(liar.address);
    conf.set(Settings.LEASE, "12s");
    Settings settings = Settings.of(conf);
    take(Service.of(settings), 0).orElseThrow();
    LogCapturer log = LogCapturer.captureLogs(LoggerFactory.getLogger(Turn.class));
    // To whom, its service does not know: as an error that nobody foresees.
    List<URI> addresses = new ArrayList<>(settings.addresses);
    settings.addresses.clear();
    while (!log.getOutput().contains("goes on to give the next")) {
      Thread.sleep(10);
    }
    log.stopCapturing();
    settings.addresses.addAll(addresses);
    untilAsked("turns/beat", 1);
  }

  @Test
  public void aThreadThatEndedWithoutAWordHoldsNobodyUp() throws Exception {
    Configuration conf = session();
    conf.set(Settings.LEASE, "3s");
    Service asked = asked(conf);
    Thread thread =
        new Thread(
            () -> {
              try {
                take(asked, 0);
              } catch (IOException | InterruptedException error) {
                throw new AssertionError(error);
              }
            });
    thread.start();
    thread.join();
    assertThat(taken).hasSize(1);
    assertThat(take(stranger(), LONG)).isPresent();
  }

  // --- what is lost on the way

  @Test
  public void aLostAnswerTakesNoSecondTurn() throws Exception {
    // Another secret is an answer.
    for (LiarService.Fate fate : EnumSet.complementOf(EnumSet.of(LiarService.Fate.ANOTHER_SECRET))) {
      Service asked = asked(session(liar.address));
      liar.next("turns/take", fate);
      long before = records("TURN");
      take(asked, LONG).orElseThrow().release();
      assertThat(records("TURN")).as(fate.name()).isEqualTo(before + 1);
    }
    assertThat(take(stranger(), 0)).isPresent();
  }

  @Test
  public void aTurnWhoseHolderNeverHeardOfItIsGivenBack() throws Exception {
    liar.next("turns/take", LiarService.Fate.UNKNOWN);
    assertThat(take(asked(session(liar.address)), 0)).isEmpty();
    assertThat(take(stranger(), LONG)).isPresent();
    assertThat(records("BREAK")).isZero();
    // Both times by the name of who was to have it.
    assertThat(said("thread")).hasSize(2);
    assertThat(said("thread").stream().distinct()).hasSize(1);
  }

  @Test
  public void aLostAnswerOfReleaseChangesNothing() throws Exception {
    liar.next("turns/release", LiarService.Fate.ANSWER_LOST);
    LogCapturer log = LogCapturer.captureLogs(LoggerFactory.getLogger(Turn.class));
    take(asked(session(liar.address)), 0).orElseThrow().release();
    log.stopCapturing();
    assertThat(log.getOutput()).contains("may have been given back by a request whose answer was lost");
    assertThat(take(stranger(), 0)).isPresent();
  }

  @Test
  public void whereTheServiceCanNotBeReachedNobodyHasIt() throws IOException {
    Configuration conf = session("http://127.0.0.1:1");
    conf.set(Settings.DEADLINE, "1s");
    assertThatThrownBy(() -> take(asked(conf), LONG)).isInstanceOf(ConnectException.class);
    assertThat(Turn.held(asked(conf), table())).isEmpty();
  }

  @Test
  public void whoWaitsForAStoreThatDoesNotAnswerSaysSo() throws Exception {
    LogCapturer log = LogCapturer.captureLogs(LoggerFactory.getLogger(Waiting.class));
    liar.always("turns/take", LiarService.Fate.SLOW);
    AtomicLong minutes = new AtomicLong();
    LongSupplier clock = () -> TimeUnit.MINUTES.toNanos(minutes.getAndIncrement());
    Waiting waiting = Waiting.of(table(), Duration.ofDays(1), clock);
    assertThat(Turn.take(asked(session(liar.address)), table(), 0, waiting)).isEmpty();
    waiting.ends();
    log.stopCapturing();
    assertThat(log.getOutput()).contains("for an answer of the service: the store is slow");
  }

  @Test
  public void aServiceThatRefusesIsNotWaitedFor() throws IOException {
    Configuration conf = session();
    conf.set(Settings.SECRET, "not the right secret at all");
    assertThatThrownBy(() -> take(asked(conf), LONG)).isInstanceOf(IOException.class).hasMessageContaining("secret");
  }

  // --- interrupts

  @Test
  public void whoeverIsInterruptedWhileItWaitsHasNothing() throws Exception {
    Turn turn = take(stranger(), 0).orElseThrow();
    Service other = asked(session(liar.address));
    CountDownLatch ended = new CountDownLatch(1);
    List<Throwable> errors = new ArrayList<>();
    Thread waiting =
        new Thread(
            () -> {
              errors.add(catchThrowable(() -> take(other, LONG)));
              ended.countDown();
            });
    waiting.start();
    while (!liar.calls.contains("turns/take")) {
      Thread.sleep(10);
    }
    waiting.interrupt();
    ended.await();
    assertThat(errors.get(0)).isInstanceOf(InterruptedException.class);
    turn.release();
    assertThat(take(stranger(), LONG)).isPresent();
    assertThat(records("BREAK")).isZero();
  }

  @Test(timeout = 60_000)
  public void whoeverIsInterruptedWhileItWaitsToBeginLeavesTheQueue() throws Exception {
    Turn turn = take(stranger(), 0).orElseThrow();
    Service other = asked(session(liar.address));
    ExecutorService threads = Executors.newSingleThreadExecutor();
    Future<Throwable> waits =
        threads.submit(
            () -> {
              Waiting waiting = Waiting.of(table(), other.longestCall());
              Throwable error = catchThrowable(() -> Turn.toBegin("commit", 4, other, table(), LONG, waiting));
              assertThat(Waiting.of(table(), other.longestCall())).isNotSameAs(waiting);
              return error;
            });
    untilAsked("turns/take", 3);
    threads.shutdownNow();
    assertThat(waits.get()).isInstanceOf(InterruptedException.class);
    assertThat(said("begins")).isNotEmpty();
    // Who asks for nothing but the turn leaves it.
    untilAsked("turns/take", said("begins").size() + 1);
    assertThat(said("thread").stream().distinct()).hasSize(1);
    assertThat(said("token").stream().distinct()).hasSize(1);
    turn.release();
  }

  @Test
  public void whoeverIsInterruptedBeforeAsksNothing() throws Exception {
    Thread.currentThread().interrupt();
    assertThatThrownBy(() -> take(asked(session(liar.address)), LONG)).isInstanceOf(InterruptedException.class);
    assertThat(Thread.interrupted()).isFalse();
    assertThat(liar.calls).isEmpty();
  }

  @Test
  public void whoeverIsInterruptedGivesItBackNevertheless() throws Exception {
    Turn turn = take(stranger(), 0).orElseThrow();
    Thread.currentThread().interrupt();
    turn.release();
    assertThat(Thread.interrupted()).isTrue();
    assertThat(take(stranger(), LONG)).isPresent();
    assertThat(records("BREAK")).isZero();
  }
}
