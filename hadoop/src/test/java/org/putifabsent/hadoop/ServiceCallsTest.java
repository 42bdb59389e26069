package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import java.io.File;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** What reaches a writer when the service, or the way to it, fails: never a guess, never a way round it. */
public class ServiceCallsTest {

  private static final int WRITERS = 4;
  private static final int ENOUGH = 100;

  private File folder;
  private ServiceProcess service;
  private LiarService liar;

  @Before
  public void setUp() throws IOException {
    folder = new File(System.getProperty("hadoop.tmp.dir"), UUID.randomUUID().toString());
    assertThat(new File(folder, "_delta_log").mkdirs()).isTrue();
    service = ServiceProcess.start(0, 100);
    liar = new LiarService(service.address);
  }

  @After
  public void tearDown() throws IOException {
    liar.close();
    service.close();
  }

  static Configuration session(String address) {
    Configuration conf = ServiceProcess.session(address, RawLocalFileSystem.class);
    conf.set(Settings.DEADLINE, "2s");
    return conf;
  }

  /** Returns what asks either of two services, and leaves the first only when it fails. */
  private static FileSystem guarded(String first, String second) throws IOException {
    Configuration conf = session(first + ", " + second);
    conf.set(Settings.DEADLINE, "60s");
    return RawNamesTest.guarded(conf);
  }

  private static FileSystem guarded(String address) throws IOException {
    return RawNamesTest.guarded(session(address));
  }

  private Path path(String last) {
    return new Path("file:" + folder + "/" + last);
  }

  private Path entry() {
    return path("_delta_log/00000000000000000000.json");
  }

  static void create(FileSystem fs, Path path, String text) throws IOException {
    try (FSDataOutputStream out = fs.create(path, false)) {
      out.writeBytes(text);
    }
  }

  static String read(Path path) throws IOException {
    return new String(Files.readAllBytes(new File(path.toUri().getPath()).toPath()), StandardCharsets.UTF_8);
  }

  // --- ways that are lost

  @Test(timeout = 60_000)
  public void aCallOnAForgottenConnectionIsSentOnAnother() throws IOException {
    liar.next("names", LiarService.Fate.FORGOTTEN);
    liar.next("admit", LiarService.Fate.FORGOTTEN);
    create(guarded(liar.address), entry(), "mine");
    assertThat(read(entry())).isEqualTo("mine");
    assertThat(liar.calls).containsSubsequence("names", "names", "admit", "admit", "create");
  }

  @Test(timeout = 60_000)
  public void anAnswerThatStallsIsALostOne() throws IOException {
    liar.next("admit", LiarService.Fate.STALLED);
    liar.next("create", LiarService.Fate.STALLED);
    create(guarded(liar.address), entry(), "mine");
    assertThat(read(entry())).isEqualTo("mine");
    assertThat(liar.calls).endsWith("create", "resolve");
  }

  @Test(timeout = 60_000)
  public void aClientWhoseThreadHasDiedIsNotUsedAgain() throws Exception {
    FileSystem fs = guarded(service.address);
    create(fs, path("_delta_log/00000000000000000000.json"), "mine");
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      if (thread.getName().matches("HttpClient-.*-SelectorManager")) {
        thread.interrupt();
        thread.join();
      }
    }
    create(fs, path("_delta_log/00000000000000000001.json"), "mine");
    assertThat(read(path("_delta_log/00000000000000000001.json"))).isEqualTo("mine");
  }

  // --- several services

  @Test
  public void whereOneServiceIsGoneAnotherIsAsked() throws IOException {
    FileSystem fs = guarded(liar.address, service.address);
    create(fs, path("_delta_log/00000000000000000000.json"), "mine");
    liar.close();
    create(fs, path("_delta_log/00000000000000000001.json"), "mine");
    assertThat(read(path("_delta_log/00000000000000000001.json"))).isEqualTo("mine");
  }

  @Test
  public void anAnswerThatOneServiceHasLostTheOtherKnows() throws IOException {
    FileSystem fs = guarded(liar.address, service.address);
    liar.next("create", LiarService.Fate.ANSWER_LOST);
    create(fs, entry(), "mine");
    assertThat(liar.calls).endsWith("create");
    assertThatThrownBy(() -> create(guarded(liar.address), entry(), "theirs"))
        .isInstanceOf(FileAlreadyExistsException.class);
  }

  @Test(timeout = 30_000)
  public void whatAProxyAnswersForOneServiceTheOtherKnows() throws IOException {
    FileSystem fs = guarded(liar.address, service.address);
    liar.always("create", LiarService.Fate.PROXY_ERROR);
    liar.always("resolve", LiarService.Fate.PROXY_ERROR);
    create(fs, entry(), "mine");
    assertThat(read(entry())).isEqualTo("mine");
  }

  @Test(timeout = 30_000)
  public void whatAnotherProgramAnswersForOneServiceTheOtherKnows() throws IOException {
    for (LiarService.Fate fate : new LiarService.Fate[] {LiarService.Fate.PROXY_OBJECT, LiarService.Fate.ANOTHERS}) {
      FileSystem fs = guarded(liar.address, service.address);
      for (String call : new String[] {"names", "admit", "create", "resolve"}) {
        liar.next(call, fate);
      }
      create(fs, entry(), "mine");
      assertThat(read(entry())).isEqualTo("mine");
      assertThat(guarded(service.address).delete(entry(), false)).isTrue();
    }
  }

  @Test(timeout = 30_000)
  public void whereOneServiceHasAnotherSecretTheNextIsAsked() throws IOException {
    FileSystem fs = guarded(liar.address, service.address);
    for (String call : new String[] {"names", "admit", "create"}) {
      liar.always(call, LiarService.Fate.ANOTHER_SECRET);
    }
    create(fs, entry(), "mine");
    assertThat(read(entry())).isEqualTo("mine");
    assertThat(liar.calls).containsExactly("names");
  }

  @Test(timeout = 30_000)
  public void aSecretThatNoServiceKnowsIsSaidAtOnce() throws IOException {
    liar.always("names", LiarService.Fate.ANOTHER_SECRET);
    FileSystem fs = guarded(liar.address, liar.address);
    assertThatThrownBy(() -> create(fs, entry(), "mine")).isInstanceOf(IOException.class).hasMessageContaining("secret");
    assertThat(liar.calls).containsExactly("names", "names");
  }

  @Test
  public void aServiceThatHasTooMuchToDoIsLeftForAnother() throws IOException {
    FileSystem fs = guarded(liar.address, service.address);
    liar.always("create", LiarService.Fate.BUSY);
    create(fs, entry(), "mine");
    assertThat(read(entry())).isEqualTo("mine");
  }

  @Test(timeout = 120_000)
  public void servicesThatAreRestartedOneByOneFailNoWriter() throws Exception {
    ServiceProcess[] services = {service, ServiceProcess.start(0, 100)};
    ExecutorService threads = Executors.newFixedThreadPool(WRITERS);
    try {
      FileSystem fs = guarded(services[0].address, services[1].address);
      AtomicBoolean over = new AtomicBoolean();
      AtomicInteger created = new AtomicInteger();
      List<Future<Integer>> writers = new ArrayList<>();
      for (int number = 0; number < WRITERS; number++) {
        String log = "table" + number + "/_delta_log/";
        writers.add(
            threads.submit(
                () -> {
                  int version = 0;
                  for (; !over.get(); version++) {
                    create(fs, path(log + String.format("%020d.json", version)), "mine");
                    created.incrementAndGet();
                  }
                  return version;
                }));
      }
      for (int number = 0; number < services.length; number++) {
        int before = created.get();
        while (created.get() < before + ENOUGH) {
          Thread.sleep(10);
        }
        services[number].end();
        services[number] = ServiceProcess.start(services[number].port(), 100);
      }
      over.set(true);
      for (int number = 0; number < WRITERS; number++) {
        assertThat(writers.get(number).get()).isPositive();
        assertThat(new File(folder, "table" + number + "/_delta_log").list((in, name) -> name.endsWith(".json")))
            .hasSize(writers.get(number).get());
      }
    } finally {
      threads.shutdownNow();
      service = services[0];
      services[1].close();
    }
  }

  // --- answers that are lost

  @Test
  public void aWinnerWhoHeardNothingIsToldThatItWon() throws IOException {
    LiarService.Fate[] lost = {
      LiarService.Fate.ANSWER_LOST, LiarService.Fate.UNKNOWN, LiarService.Fate.PROXY_OBJECT, LiarService.Fate.ANOTHERS
    };
    for (LiarService.Fate fate : lost) {
      FileSystem fs = guarded(liar.address);
      liar.next("create", fate);
      create(fs, entry(), "mine");
      assertThat(read(entry())).isEqualTo("mine");
      assertThat(fs.delete(entry(), false)).isTrue();
      create(fs, path("temporary"), "mine");
      liar.next("rename", fate);
      assertThat(fs.rename(path("temporary"), entry())).isTrue();
      assertThat(fs.delete(entry(), false)).isTrue();
    }
    assertThat(liar.calls).containsSequence("admit", "create", "resolve");
  }

  private FSDataOutputStream begunBeforeAnother(FileSystem fs) throws IOException {
    FSDataOutputStream stream = fs.create(entry(), false);
    stream.writeBytes("mine");
    create(guarded(service.address), entry(), "theirs");
    return stream;
  }

  @Test
  public void aLoserWhoHeardNothingIsToldThatItLost() throws IOException {
    FileSystem fs = guarded(liar.address);
    FSDataOutputStream stream = begunBeforeAnother(fs);
    liar.always("resolve", LiarService.Fate.OLD_HOLDER);
    liar.next("create", LiarService.Fate.ANSWER_LOST);
    assertThatThrownBy(stream::close).isInstanceOf(FileAlreadyExistsException.class);
    create(fs, path("temporary"), "mine");
    liar.next("rename", LiarService.Fate.REQUEST_LOST);
    assertThat(fs.rename(path("temporary"), entry())).isFalse();
    assertThat(read(entry())).isEqualTo("theirs");
  }

  /** What was mine may have been read, and deleted, before the other came. */
  @Test
  public void whoMayHaveWonBeforeTheOtherCameIsNotToldThatItLost() throws IOException {
    FileSystem fs = guarded(liar.address);
    FSDataOutputStream stream = begunBeforeAnother(fs);
    liar.next("create", LiarService.Fate.ANSWER_LOST);
    assertThatThrownBy(stream::close).isInstanceOf(OutcomeUnknownException.class);
    assertThat(liar.calls.stream().filter("resolve"::equals)).hasSize(1);
    create(fs, path("temporary"), "mine");
    liar.next("rename", LiarService.Fate.ANSWER_LOST);
    assertThatThrownBy(() -> fs.rename(path("temporary"), entry())).hasCauseInstanceOf(OutcomeUnknownException.class);
    assertThat(read(entry())).isEqualTo("theirs");
  }

  @Test
  public void whatNobodyKnowsIsNeverSaidToExist() throws IOException {
    FileSystem fs = guarded(liar.address);
    liar.next("create", LiarService.Fate.REQUEST_LOST);
    Throwable unknown = catchThrowable(() -> create(fs, entry(), "mine"));
    assertThat(unknown).isInstanceOf(OutcomeUnknownException.class).hasMessageContaining(entry().getName());
    assertThat(((OutcomeUnknownException) unknown).getPath()).isEqualTo(entry().toString());
    assertThat(unknown).hasMessageContaining(((OutcomeUnknownException) unknown).getToken());
    assertThat(liar.calls.stream().filter("create"::equals)).hasSize(1);
    assertThat(liar.calls.stream().filter("resolve"::equals).count()).isGreaterThan(1);
    create(fs, path("temporary"), "mine");
    liar.always("resolve", LiarService.Fate.REQUEST_LOST);
    liar.next("rename", LiarService.Fate.REQUEST_LOST);
    // Iceberg takes what is checked for a failure.
    assertThatThrownBy(() -> fs.rename(path("temporary"), entry()))
        .isInstanceOf(UncheckedIOException.class)
        .hasCauseInstanceOf(OutcomeUnknownException.class);
  }

  @Test
  public void whatAnotherProgramSaysIsNoAnswer() throws IOException {
    for (LiarService.Fate fate : new LiarService.Fate[] {LiarService.Fate.PROXY_OBJECT, LiarService.Fate.ANOTHERS}) {
      LiarService other = new LiarService(service.address);
      for (String call : new String[] {"names", "admit"}) {
        other.next(call, fate);
      }
      FileSystem fs = guarded(other.address);
      FSDataOutputStream stream = fs.create(entry(), false);
      other.always("create", fate);
      other.always("resolve", fate);
      assertThatThrownBy(stream::close)
          .isInstanceOf(OutcomeUnknownException.class)
          .hasStackTraceContaining("is it the coordination service?");
      other.close();
      assertThat(other.calls).startsWith("names", "names", "admit", "admit", "create", "resolve");
      assertThat(guarded(service.address).delete(entry(), false)).isTrue();
    }
  }

  @Test
  public void aTimeOutOfAPlainRenameIsTheStores() throws IOException {
    FileSystem fs = RawNamesTest.guarded(ServiceProcess.session(service.address, Slow.class));
    assertThatThrownBy(() -> fs.rename(path("one"), path("another"))).isInstanceOf(SocketTimeoutException.class);
  }

  @Test
  public void aRenameThatWasNotBegunIsNotUnknown() throws IOException {
    FileSystem fs = guarded(liar.address);
    liar.next("names", LiarService.Fate.SLOW);
    assertThatThrownBy(() -> fs.rename(path("temporary"), entry())).isInstanceOf(SocketTimeoutException.class);
  }

  /** A store that does not answer in time when it is to rename. */
  public static final class Slow extends RawLocalFileSystem {
    @Override
    public boolean rename(Path source, Path target) throws IOException {
      throw new SocketTimeoutException("Read timed out");
    }
  }

  @Test
  public void aDeletionIsNotSentAgain() throws IOException {
    FileSystem fs = guarded(liar.address);
    create(fs, entry(), "mine");
    liar.next("delete", LiarService.Fate.ANSWER_LOST);
    assertThatThrownBy(() -> fs.delete(entry(), false)).isInstanceOf(IOException.class);
    assertThat(liar.calls.stream().filter("delete"::equals)).hasSize(1);
  }

  @Test
  public void whatMayBeAskedTwiceIs() throws IOException {
    FileSystem fs = guarded(liar.address);
    liar.next("names", LiarService.Fate.ANSWER_LOST);
    liar.next("admit", LiarService.Fate.REQUEST_LOST);
    liar.next("create", LiarService.Fate.BUSY);
    create(fs, entry(), "mine");
    assertThat(read(entry())).isEqualTo("mine");
    assertThat(liar.calls).containsExactly("names", "names", "admit", "admit", "create", "create");
  }

  // --- a service that is not there, or not the right one

  @Test
  public void aServiceThatIsKilledMidCommitCostsTimeAndNothingElse() throws Exception {
    Configuration conf = session(service.address);
    conf.set(Settings.DEADLINE, "60s");
    FileSystem fs = RawNamesTest.guarded(conf);
    FSDataOutputStream stream = fs.create(entry(), false);
    stream.writeBytes("mine");
    int port = service.port();
    service.close();
    CompletableFuture<ServiceProcess> restarted =
        CompletableFuture.supplyAsync(
            () -> {
              try {
                return ServiceProcess.start(port, 100);
              } catch (IOException error) {
                throw new UncheckedIOException(error);
              }
            });
    stream.close();
    service = restarted.get();
    assertThat(read(entry())).isEqualTo("mine");
  }

  @Test
  public void whereItCanNotBeReachedNothingIsWritten() throws IOException {
    service.close();
    FileSystem fs = guarded(service.address);
    for (String name : new String[] {"_delta_log/00000000000000000000.json", "plain"}) {
      assertThatThrownBy(() -> create(fs, path(name), "mine"))
          .isInstanceOf(IOException.class)
          .hasMessageContaining(service.address)
          .hasMessageContaining("nothing was done");
      assertThat(fs.exists(path(name))).isFalse();
    }
  }

  @Test
  public void aWrongSecretIsRefusedAndSaidNowhere() throws IOException {
    Configuration conf = session(service.address);
    conf.set(Settings.SECRET, "not the right secret at all");
    FileSystem fs = RawNamesTest.guarded(conf);
    Throwable refused = catchThrowable(() -> create(fs, entry(), "mine"));
    assertThat(refused).isInstanceOf(IOException.class).hasMessageContaining("secret");
    assertThat(refused.getMessage()).doesNotContain("not the right");
    assertThat(fs.exists(entry())).isFalse();
  }

  @Test
  public void whatIsNotSaidIsAskedForByName() {
    for (String key : new String[] {Settings.ADDRESS, Settings.SECRET, Settings.WRAPPED + "file"}) {
      Configuration conf = session(service.address);
      conf.unset(key);
      assertThatThrownBy(() -> RawNamesTest.guarded(conf)).isInstanceOf(IOException.class).hasMessageContaining(key);
    }
    Configuration broken = session(service.address);
    broken.set(Settings.SECRET, "a secret\nof two lines");
    assertThatThrownBy(() -> RawNamesTest.guarded(broken))
        .isInstanceOf(IOException.class)
        .hasMessageContaining(Settings.SECRET)
        .satisfies(error -> assertThat(error.getMessage()).doesNotContain("of two lines"));
    for (String key : new String[] {Settings.DEADLINE, Settings.LEASE}) {
      Configuration never = session(service.address);
      never.set(key, "0s");
      assertThatThrownBy(() -> RawNamesTest.guarded(never)).isInstanceOf(IOException.class).hasMessageContaining(key);
    }
    String[] wrong = {
      "127.0.0.1:80", "//127.0.0.1:80", "ftp://127.0.0.1", "http:// ", "http://:80", "nonsense", ",",
      "http://127.0.0.1:80,"
    };
    for (String address : wrong) {
      assertThatThrownBy(() -> guarded(address)).isInstanceOf(IOException.class).hasMessageContaining(Settings.ADDRESS);
    }
  }

  @Test
  public void anAddressSaysNothingThatWouldBeLeftOut() {
    for (String more : new String[] {"/base", "//", "?", "?tenant=1", "#", "#part"}) {
      assertThatThrownBy(() -> guarded("http://127.0.0.1:1/, http://127.0.0.1:2" + more))
          .isInstanceOf(IOException.class)
          .hasMessageContaining(Settings.ADDRESS)
          .hasMessageContaining("http://127.0.0.1:2" + more + " is no address");
    }
    String[] users = {"user:hidden@", "hidden@", "hidden,hidden@", "user:hidden/hidden@", "hidden hidden@"};
    for (String user : users) {
      Throwable refused = catchThrowable(() -> guarded("http://127.0.0.1:1,http://" + user + "127.0.0.1:2"));
      assertThat(refused).isInstanceOf(IOException.class).hasMessageContaining("127.0.0.1:2 is no address");
      assertThat(refused.toString()).doesNotContain("hidden");
      assertThat(refused).hasNoCause();
    }
  }

  @Test
  public void moreThanTheServiceTakesIsRefusedWhileItIsWritten() throws IOException {
    FileSystem fs = guarded(service.address);
    FSDataOutputStream stream = fs.create(entry(), false);
    stream.write(new byte[100]);
    assertThatThrownBy(() -> stream.write(1)).isInstanceOf(IOException.class).hasMessageContaining("largest_body");
    stream.close();
    assertThat(fs.exists(entry())).isFalse();
  }

  @Test(timeout = 60_000)
  public void whoeverIsInterruptedIsToldNoGuess() throws IOException {
    FileSystem fs = guarded(liar.address, liar.address);
    FSDataOutputStream stream = fs.create(entry(), false);
    interruptedDuring("create");
    assertThatThrownBy(stream::close)
        .isInstanceOf(InterruptedIOException.class)
        .hasCauseInstanceOf(OutcomeUnknownException.class);
    assertThat(Thread.interrupted()).isTrue();
    interruptedDuring("rename");
    assertThatThrownBy(() -> fs.rename(path("temporary"), entry()))
        .isInstanceOf(UncheckedIOException.class)
        .hasCauseInstanceOf(InterruptedIOException.class)
        .hasRootCauseInstanceOf(InterruptedException.class);
    assertThat(Thread.interrupted()).isTrue();
  }

  /** Has this thread be interrupted when a call has come, to which nobody answers. */
  private void interruptedDuring(String call) {
    liar.next(call, LiarService.Fate.FORGOTTEN);
    Thread caller = Thread.currentThread();
    CompletableFuture.runAsync(
        () -> {
          while (!liar.calls.contains(call)) {
            Thread.onSpinWait();
          }
          caller.interrupt();
        });
  }

  @Test
  public void whoeverIsInterruptedBeforeHasNothingDone() throws Exception {
    FileSystem fs = guarded(service.address);
    FSDataOutputStream stream = fs.create(entry(), false);
    create(fs, path("temporary"), "mine");
    Thread.currentThread().interrupt();
    assertThatThrownBy(stream::close)
        .isInstanceOf(InterruptedIOException.class)
        .hasMessageContaining("nothing was done");
    assertThatThrownBy(() -> fs.rename(path("temporary"), entry()))
        .isInstanceOf(UncheckedIOException.class)
        .hasCauseInstanceOf(InterruptedIOException.class);
    assertThatThrownBy(() -> fs.create(entry(), false)).isInstanceOf(InterruptedIOException.class);
    assertThatThrownBy(() -> fs.delete(entry(), true)).isInstanceOf(InterruptedIOException.class);
    assertThat(Thread.interrupted()).isTrue();
    assertThat(service.answered()).doesNotContainKeys("create", "rename", "delete");
  }

  @Test
  public void whatAnotherProgramOnTheWaySaysDecidesNothing() throws IOException {
    FileSystem fs = guarded(liar.address);
    liar.next("create", LiarService.Fate.PROXY_ERROR);
    create(fs, entry(), "mine");
    assertThat(read(entry())).isEqualTo("mine");
  }
}
