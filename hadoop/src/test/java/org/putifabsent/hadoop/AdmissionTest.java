package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.putifabsent.hadoop.ServiceCallsTest.create;

import java.io.File;
import java.io.IOException;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.AccessControlException;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** What the service is asked about plain writes, how often, and of whose instants. */
public class AdmissionTest {

  private static final String INSTANT = "20260101000000000";

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

  private FileSystem guarded() throws IOException {
    return RawNamesTest.guarded(ServiceCallsTest.session(service.address));
  }

  private Path path(String last) {
    return new Path("file:" + folder + "/" + last);
  }

  private Path table() throws IOException {
    TurnTest.makeTable(folder);
    return path(".hoodie/timeline/" + INSTANT + ".commit.requested");
  }

  private Path slice(String partition, int number) {
    return path(partition + "/" + UUID.randomUUID() + "-0_" + number + "-1-2_" + INSTANT + ".parquet");
  }

  @Test
  public void whatIsNothingButAFileIsNotAskedAbout() throws Exception {
    FileSystem fs = guarded();
    for (int number = 0; number < 10; number++) {
      create(fs, path("part-" + number), "data");
      assertThat(fs.rename(path("part-" + number), path("done-" + number))).isTrue();
    }
    assertThat(service.answered()).isEqualTo(Map.of("names", 1));
  }

  @Test
  public void slicesAreWrittenByTheWrappedFilesystemAndAskedForOnceAFolder() throws Exception {
    FileSystem fs = guarded();
    create(fs, table(), "");
    for (String partition : new String[] {"dt=1", "dt=2"}) {
      for (int number = 0; number < 10; number++) {
        create(fs, slice(partition, number), "rows");
      }
    }
    assertThat(service.answered()).isEqualTo(Map.of("names", 1, "admit", 3, "create", 1));
  }

  @Test
  public void aSliceOfAnothersInstantIsRefused() throws Exception {
    create(guarded(), table(), "");
    FileSystem stranger = guarded();
    Path slice = slice("dt=1", 0);
    assertThatThrownBy(() -> create(stranger, slice, "rows")).isInstanceOf(AccessControlException.class);
    assertThat(stranger.exists(slice)).isFalse();
  }

  @Test
  public void whetherAnInstantIsItsSessionsStillIsAskedOnceAMinute() throws Exception {
    Configuration conf = ServiceCallsTest.session(service.address);
    FileSystem owner = RawNamesTest.guarded(conf);
    Path requested = table();
    create(owner, requested, "");
    create(owner, slice("dt=1", 0), "rows");
    isDeleted(requested, owner);
    Name late = Name.of(slice("dt=1", 1));
    Service asked = Service.of(Settings.of(conf));
    assertThat(asked.admit(late, false).guarded).isFalse();
    long nanos = System.nanoTime();
    long millis = System.currentTimeMillis();
    Elapsed[] inTwoMinutes = {
      new Elapsed(nanos + TimeUnit.MINUTES.toNanos(2), millis),
      // The machine has slept in between.
      new Elapsed(nanos, millis + TimeUnit.MINUTES.toMillis(2))
    };
    for (Elapsed now : inTwoMinutes) {
      assertThatThrownBy(() -> asked.admit(late, false, now))
          .isInstanceOfSatisfying(
              Refusal.class, fenced -> assertThat(fenced.asHadoopSays()).isInstanceOf(AccessControlException.class));
    }
  }

  @Test
  public void theLedgerHearsOfAnInstantThatIsDeleted() throws Exception {
    FileSystem owner = guarded();
    Path requested = table();
    create(owner, requested, "");
    isDeleted(requested, owner);
  }

  /** Has another session delete an instant, and its owner hear of that. */
  private void isDeleted(Path requested, FileSystem owner) throws IOException {
    assertThat(guarded().delete(requested, false)).isTrue();
    assertThatThrownBy(() -> create(owner, path(".hoodie/timeline/" + INSTANT + "_1.commit"), "{}"))
        .isInstanceOf(AccessControlException.class);
  }
}
