package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.junit.Test;

/** A filesystem that is wrapped, the raw local one here, keeps all that is promised of guarded names. */
public class RawNamesTest extends GuardedNames {

  static FileSystem guarded(Configuration conf) throws IOException {
    FileSystem guarded = new GuardedFileSystem();
    guarded.initialize(URI.create("file:///"), conf);
    return guarded;
  }

  @Override
  FileSystem session() throws IOException {
    return guarded(ServiceProcess.session(RawLocalFileSystem.class));
  }

  @Override
  FileContext context() throws Exception {
    return FileContextTest.guarded();
  }

  @Test
  public void aBuilderMayDemandWhatHoldsForAllGuardedNames() throws IOException {
    ((FSDataOutputStream) fs.createFile(entry(0)).must("fs.option.create.conditional.overwrite", true).build()).close();
    assertThatThrownBy(() -> fs.createFile(entry(1)).must("fs.option.nobody.knows", true).build())
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> fs.createFile(path("plain")).must("fs.option.nobody.knows", true).build())
        .isInstanceOf(IllegalArgumentException.class);
  }

  /** Names that other programs use as well are asked about; of this one nothing shows that it is a table's. */
  @Test
  public void whatABuilderSaysOfANameThatNothingGuardsTheWrappedFilesystemHears() throws IOException {
    Path name = path("snapshot/snapshot-3");
    assertThatThrownBy(
            () -> fs.createFile(name).recursive().must("fs.option.create.conditional.overwrite", true).build())
        .isInstanceOf(IllegalArgumentException.class);
    ((FSDataOutputStream) fs.createFile(name).recursive().opt("fs.option.nobody.knows", true).build()).close();
    assertThat(fs.exists(name)).isTrue();
  }

  /** Is of a bucket, as S3A's is: Hadoop opens one for all spellings that differ in case alone. */
  public static final class OfABucket extends RawLocalFileSystem {
    @Override
    public URI getUri() {
      return URI.create("memory://lake");
    }
  }

  @Test
  public void aBucketThatIsSpelledOtherwiseIsTheFilesystemsOwn() throws Exception {
    try (ServiceProcess service = ServiceProcess.start(0, 1 << 20, "memory://", new JsonObject())) {
      Configuration conf = ServiceProcess.session(service.address, RawLocalFileSystem.class);
      conf.setClass(Settings.WRAPPED + "memory", OfABucket.class, FileSystem.class);
      FileSystem guarded = new GuardedFileSystem();
      guarded.initialize(URI.create("memory://lake"), conf);
      String entry = "/t/_delta_log/00000000000000000000.json";
      write(guarded.create(new Path("memory://lake" + entry), false), "first");
      assertThatThrownBy(() -> write(guarded.create(new Path("memory://LAKE" + entry), false), "second"))
          .isInstanceOf(FileAlreadyExistsException.class);
    }
  }

  @Test
  public void whatIsMovedToLocalFilesIsDeletedByTheService() throws Exception {
    try (ServiceProcess service = ServiceProcess.start(0, 1 << 20)) {
      FileSystem guarded = guarded(ServiceProcess.session(service.address, RawLocalFileSystem.class));
      write(guarded.create(entry(0), false), "first");
      write(guarded.create(entry(1), false), "second");
      guarded.moveToLocalFile(entry(0), path("moved"));
      guarded.copyToLocalFile(true, entry(1), path("moved too"), true);
      assertThat(read(path("moved")) + read(path("moved too"))).isEqualTo("firstsecond");
      assertThat(service.answered()).containsEntry("delete", 2);
    }
  }

  @Test
  public void whatNothingGuardsIsTheWrappedFilesystems() throws IOException {
    Path data = path("part_of_data");
    create(data, "first");
    write(fs.create(data, true), "second");
    assertThat(read(data)).isEqualTo("second");
    write(fs.append(data), " and more");
    assertThat(read(data)).isEqualTo("second and more");
    assertThat(fs.rename(data, path("renamed_by_that"))).isTrue();
    assertThat(fs.getFileStatus(path("renamed_by_that")).getLen()).isEqualTo(15);
  }
}
