package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.putifabsent.hadoop.ServiceCallsTest.create;
import static org.putifabsent.hadoop.ServiceCallsTest.read;
import static org.putifabsent.hadoop.ServiceCallsTest.session;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** What a writer meets that has called nobody for an hour: a network that forgot it, a service that was exchanged. */
public class IdleWriterTest {

  private File folder;
  private ServiceProcess service;

  @Before
  public void setUp() throws IOException {
    folder = new File(System.getProperty("hadoop.tmp.dir"), UUID.randomUUID().toString());
    assertThat(new File(folder, "_delta_log").mkdirs()).isTrue();
    service = ServiceProcess.start(0, 100);
  }

  @After
  public void tearDown() throws IOException {
    service.close();
  }

  private Path path(String last) {
    return new Path("file:" + folder + "/" + last);
  }

  @Test(timeout = 60_000)
  public void noCreationGoesOverAConnectionThatTheNetworkMayHaveForgotten() throws IOException {
    arrives(to -> Sender.to(to, System.nanoTime() + TimeUnit.HOURS.toNanos(1), System.currentTimeMillis()));
  }

  @Test(timeout = 60_000)
  public void noCreationGoesOverAConnectionFromBeforeTheMachineSlept() throws IOException {
    arrives(to -> Sender.to(to, System.nanoTime(), System.currentTimeMillis() + TimeUnit.HOURS.toMillis(1)));
  }

  /** Each client has a thread until a collection of old objects, of which a busy process may have none for days. */
  @Test
  public void aClientWhoseConnectionsAreInUseIsUsedOn() throws IOException {
    create(RawNamesTest.guarded(session(service.address)), path("_delta_log/00000000000000000000.json"), "mine");
    Sender first = after(0);
    assertThat(after(1)).as("with its one connection in use").isSameAs(first);
    first.hears(URI.create(service.address), null);
    assertThat(after(1)).as("with an idle one").isNotSameAs(first);
  }

  @Test
  public void whereManyHearAtOnceThatAClientHasFailedOneIsMade() {
    Sender failed = after(0);
    long before = clients();
    for (int call = 0; call < 50; call++) {
      failed.hears(URI.create(service.address), new IOException("no answer"));
    }
    assertThat(after(0)).isNotSameAs(failed);
    assertThat(clients() - before).isLessThanOrEqualTo(1);
  }

  private static long clients() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().matches("HttpClient-.*-SelectorManager"))
        .count();
  }

  private Sender after(int hours) {
    long nanos = System.nanoTime() + TimeUnit.HOURS.toNanos(hours);
    return Sender.to(URI.create(service.address), nanos, System.currentTimeMillis());
  }

  /** A rename is often the first call after hours, and is sent once: nobody would know what became of it. */
  private void arrives(Consumer<URI> hours) throws IOException {
    try (ForgetfulNetwork network = new ForgetfulNetwork(service.address)) {
      FileSystem fs = RawNamesTest.guarded(session(network.address));
      create(fs, path("_delta_log/00000000000000000000.json"), "mine");
      create(fs, path("temporary"), "next");
      network.forget();
      hours.accept(URI.create(network.address));
      assertThat(fs.rename(path("temporary"), path("_delta_log/00000000000000000001.json"))).isTrue();
    }
  }

  private static void namesInAnHour(Configuration conf) throws IOException {
    Elapsed now = new Elapsed(System.nanoTime() + TimeUnit.HOURS.toNanos(1), System.currentTimeMillis());
    Service.of(Settings.of(conf)).names(Name.of(new Path("file:/")), now);
  }

  @Test
  public void whatAServiceThatWasStartedAnewGuardsIsAskedAbout() throws IOException {
    Configuration conf = session(service.address);
    FileSystem fs = RawNamesTest.guarded(conf);
    create(fs, path("manifest-1"), "mine");
    JsonObject options = JsonParser.parseString("{\"guard\": [\"**/manifest-*\"]}").getAsJsonObject();
    service.close();
    service = ServiceProcess.start(service.port(), 100, "file:/", options);
    namesInAnHour(conf);
    create(fs, path("manifest-2"), "mine");
    assertThatThrownBy(() -> fs.create(path("manifest-2"), true).close())
        .isInstanceOf(FileAlreadyExistsException.class);
  }

  @Test(timeout = 60_000)
  public void whoeverWritesWhatNothingGuardsWaitsForNoServiceThatIsAway() throws IOException {
    Configuration conf = session(service.address);
    conf.set(Settings.DEADLINE, "600s");
    FileSystem fs = RawNamesTest.guarded(conf);
    create(fs, path("data"), "mine");
    service.close();
    namesInAnHour(conf);
    create(fs, path("more data"), "mine");
    assertThat(read(path("more data"))).isEqualTo("mine");
    service = ServiceProcess.start(service.port(), 100);
  }
}
