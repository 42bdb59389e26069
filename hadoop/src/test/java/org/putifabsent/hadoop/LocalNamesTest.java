package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.EnumSet;
import org.apache.commons.io.IOUtils;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.AbstractFileSystem;
import org.apache.hadoop.fs.ChecksumException;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.junit.Test;

/** Hadoop's local filesystem keeps all that is promised of guarded names, and its checksums. */
public class LocalNamesTest extends GuardedNames {

  private static Configuration conf() {
    Configuration conf = new Configuration();
    ServiceProcess.tellOfAllFiles(conf);
    conf.setClass("fs.file.impl", GuardedLocalFileSystem.class, FileSystem.class);
    conf.setClass("fs.AbstractFileSystem.file.impl", GuardedLocalFs.class, AbstractFileSystem.class);
    return conf;
  }

  static FileContext guarded() throws Exception {
    return FileContext.getFileContext(URI.create("file:///"), conf());
  }

  @Test
  public void anOverwrittenNameLosesTheChecksumsOfWhatWasThere() throws IOException {
    Path plan = path("t/.hoodie/timeline/20260101120000000.compaction.requested");
    write(bare().create(plan), "bytes of old");
    write(fs.create(plan, true), "bytes");
    assertThat(IOUtils.toString(fs.open(plan), StandardCharsets.UTF_8)).isEqualTo("bytes");
  }

  @Override
  FileSystem session() throws IOException {
    return FileSystem.newInstanceLocal(conf());
  }

  @Override
  FileContext context() throws Exception {
    return guarded();
  }

  private static LocalFileSystem bare() throws IOException {
    return FileSystem.newInstanceLocal(new Configuration());
  }

  private File checksum(Path path) {
    return new File(path.getParent().toUri().getPath(), "." + path.getName() + ".crc");
  }

  /** Leaves the checksums of a file that somebody removed without them. */
  private File staleChecksum(Path path) throws IOException {
    write(bare().create(path), "bytes of old");
    assertThat(new File(path.toUri().getPath()).delete()).isTrue();
    assertThat(checksum(path)).exists();
    return checksum(path);
  }

  private static String readBy(FileSystem reader, Path path) throws IOException {
    return IOUtils.toString(reader.open(path), StandardCharsets.UTF_8);
  }

  private void isReadable(Path path, String text) throws IOException {
    assertThat(readBy(fs, path)).isEqualTo(text);
    assertThat(readBy(bare(), path)).isEqualTo(text);
    assertThat(checksum(path)).doesNotExist();
  }

  @Test
  public void whatNothingGuardsIsTheWrappedFilesystems() throws IOException {
    Path data = path("part_of_data");
    create(data, "first");
    assertThat(checksum(data)).exists();
    write(fs.create(data, true), "second");
    assertThat(readBy(bare(), data)).isEqualTo("second");
    assertThatThrownBy(() -> fs.append(data)).isInstanceOf(UnsupportedOperationException.class);
    Path renamed = path("renamed_by_that");
    assertThat(fs.rename(data, renamed)).isTrue();
    assertThat(checksum(data)).doesNotExist();
    assertThat(checksum(renamed)).exists();
    assertThat(fs.delete(renamed, false)).isTrue();
    assertThat(checksum(renamed)).doesNotExist();
  }

  @Test
  public void itIsTheClassThatHadoopInsistsOn() throws IOException {
    LocalFileSystem local = (LocalFileSystem) fs;
    assertThat(local).isInstanceOf(GuardedLocalFileSystem.class);
    assertThat(local.pathToFile(entry(0))).isEqualTo(new File(entry(0).toUri().getPath()));
    Path temporary = path("staged");
    assertThat(local.startLocalOutput(entry(0), temporary)).isEqualTo(temporary);
  }

  @Test
  public void aChecksumThatDoesNotMatchIsFoundUnlessNobodyLooks() throws IOException {
    create(path("data"), "first");
    Files.write(new File(folder, "data").toPath(), "other".getBytes(StandardCharsets.UTF_8));
    assertThatThrownBy(() -> readBy(fs, path("data"))).isInstanceOf(ChecksumException.class);
    fs.setVerifyChecksum(false);
    assertThat(readBy(fs, path("data"))).isEqualTo("other");
  }

  @Test
  public void whatIsCreatedIsReadWhateverChecksumsLieThere() throws Exception {
    staleChecksum(entry(0));
    create(entry(0), "first");
    isReadable(entry(0), "first");
    staleChecksum(entry(1));
    write(context().create(entry(1), EnumSet.of(CreateFlag.CREATE)), "second");
    isReadable(entry(1), "second");
  }

  @Test
  public void whatIsRenamedLeavesNoChecksums() throws Exception {
    staleChecksum(entry(0));
    create(path("temporary"), "first");
    assertThat(checksum(path("temporary"))).exists();
    assertThat(fs.rename(path("temporary"), entry(0))).isTrue();
    isReadable(entry(0), "first");
    assertThat(checksum(path("temporary"))).doesNotExist();

    staleChecksum(entry(1));
    write(context().create(path("temporary"), EnumSet.of(CreateFlag.CREATE)), "second");
    assertThat(checksum(path("temporary"))).exists();
    context().rename(path("temporary"), entry(1), Options.Rename.NONE);
    isReadable(entry(1), "second");
    assertThat(checksum(path("temporary"))).doesNotExist();
  }

  @Test
  public void whoeverLosesKeepsItsChecksumsAndTheirs() throws IOException {
    write(bare().create(entry(0)), "first");
    create(path("temporary"), "second");
    assertThat(fs.rename(path("temporary"), entry(0))).isFalse();
    assertThat(checksum(entry(0))).exists();
    assertThat(checksum(path("temporary"))).exists();
    assertThat(readBy(bare(), path("temporary"))).isEqualTo("second");
  }

  @Test
  public void aFileContextKeepsTheChecksumsOfWhatNothingGuards() throws Exception {
    FileContext context = context();
    write(context.create(path("data"), EnumSet.of(CreateFlag.CREATE)), "first");
    context.rename(path("data"), path("renamed"));
    assertThat(checksum(path("renamed"))).exists();
    assertThat(readBy(fs, path("renamed"))).isEqualTo("first");
    assertThat(context.delete(path("renamed"), false)).isTrue();
    assertThat(checksum(path("renamed"))).doesNotExist();
  }
}
