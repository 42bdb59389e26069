package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.commons.io.IOUtils;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.junit.Before;
import org.junit.Test;

/** Every way to bring a guarded name into being leads to a create, and one creation wins. */
public abstract class GuardedNames {

  private static final FsPermission ANY = FsPermission.getFileDefault();

  File folder;
  FileSystem fs;

  @Before
  public void setUp() throws IOException {
    folder = new File(System.getProperty("hadoop.tmp.dir"), UUID.randomUUID().toString());
    assertThat(new File(folder, "_delta_log").mkdirs()).isTrue();
    fs = session();
  }

  /** Returns the filesystem of a session of its own. */
  abstract FileSystem session() throws IOException;

  abstract FileContext context() throws Exception;

  Path path(String last) {
    return new Path("file:" + folder + "/" + last);
  }

  Path entry(int number) {
    return path(String.format("_delta_log/%020d.json", number));
  }

  static void write(FSDataOutputStream stream, String text) throws IOException {
    try (FSDataOutputStream out = stream) {
      out.write(text.getBytes(StandardCharsets.UTF_8));
    }
  }

  void create(Path path, String text) throws IOException {
    write(fs.create(path, false), text);
  }

  static String read(Path path) throws IOException {
    return new String(Files.readAllBytes(new File(path.toUri().getPath()).toPath()), StandardCharsets.UTF_8);
  }

  private interface Way {
    void bring(Path path) throws IOException;
  }

  /** Whoever comes second by this way hears that the name is taken, and changes nothing. */
  private void losesBy(Way way) throws IOException {
    create(entry(0), "first");
    assertThatThrownBy(() -> way.bring(entry(0))).isInstanceOf(FileAlreadyExistsException.class);
    assertThat(read(entry(0))).isEqualTo("first");
  }

  @Test
  public void ofManyWritersOneCreatesAName() throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(16);
    for (int number = 0; number < 8; number++) {
      Path name = entry(number);
      List<Callable<String>> writers = new ArrayList<>();
      for (int writer = 0; writer < 16; writer++) {
        String text = "writer " + writer;
        FileSystem own = session();
        writers.add(
            () -> {
              // Under another name, and then renamed, or straight.
              if (text.hashCode() % 2 == 0) {
                write(own.create(name, false), text);
                return text;
              }
              Path temporary = path("temporary-" + UUID.randomUUID());
              write(own.create(temporary, false), text);
              return own.rename(temporary, name) ? text : null;
            });
      }
      List<String> winners = new ArrayList<>();
      for (Future<String> written : threads.invokeAll(writers)) {
        try {
          if (written.get() != null) {
            winners.add(written.get());
          }
        } catch (ExecutionException lost) {
          assertThat(lost.getCause()).isInstanceOf(FileAlreadyExistsException.class);
        }
      }
      assertThat(winners).containsExactly(read(name));
    }
    threads.shutdown();
  }

  @Test
  public void createKnowsWhatIsTaken() throws IOException {
    losesBy(name -> fs.create(name, false));
    assertThatThrownBy(() -> fs.create(entry(0), true)).isInstanceOf(FileAlreadyExistsException.class);
  }

  @Test
  public void whatCommandsOfAFormatOverwriteIsOverwrittenWhereTheCallSaysSo() throws IOException {
    for (Path name : List.of(
        path("t/.hoodie/timeline/20260101120000000.compaction.requested"), path("db.db/t/schema/schema-0"))) {
      create(name, "first");
      assertThatThrownBy(() -> fs.create(name, false)).isInstanceOf(FileAlreadyExistsException.class);
      write(fs.create(name, true), "second");
      assertThat(IOUtils.toString(fs.open(name), StandardCharsets.UTF_8)).isEqualTo("second");
      write(fs.createFile(name).overwrite(true).build(), "third");
      assertThat(IOUtils.toString(fs.open(name), StandardCharsets.UTF_8)).isEqualTo("third");
      assertThatThrownBy(() -> fs.createFile(name).overwrite(false).build())
          .isInstanceOf(FileAlreadyExistsException.class);
    }
  }

  @Test
  public void whoeverClosesSecondHearsItThen() throws IOException {
    FSDataOutputStream second = fs.create(entry(0), false);
    second.writeBytes("second");
    create(entry(0), "first");
    assertThatThrownBy(second::close).isInstanceOf(FileAlreadyExistsException.class);
    second.close();
    assertThat(read(entry(0))).isEqualTo("first");
  }

  @Test
  public void nothingIsThereBeforeItIsClosed() throws IOException {
    FSDataOutputStream stream = fs.create(entry(0), false);
    stream.writeBytes("bytes");
    stream.hflush();
    assertThat(fs.exists(entry(0))).isFalse();
    stream.close();
    assertThat(read(entry(0))).isEqualTo("bytes");
  }

  @Test
  public void whatIsAbortedWasNeverWritten() throws IOException {
    FSDataOutputStream stream = fs.create(entry(0), false);
    assertThat(stream.hasCapability("fs.capability.outputstream.abortable")).isTrue();
    stream.writeBytes("half of it");
    assertThat(stream.abort().alreadyClosed()).isFalse();
    stream.close();
    assertThat(fs.exists(entry(0))).isFalse();
    assertThatThrownBy(() -> stream.write(1)).isInstanceOf(IOException.class);
  }

  /** A writer that fails between two writes of its own, and is closed all the same: its stream can't see that. */
  @Test
  public void halfAFileIsRefusedAtCloseAndItsNameStaysFree() throws IOException {
    String json = "{\"commitInfo\":{}}\n{\"add\":{\"path\":\"a\"}}\n";
    isRefusedInHalves(entry(0), json.getBytes(StandardCharsets.UTF_8));
    String instant = "20260101120000001_20260101120100001.commit";
    isRefusedInHalves(path("t/.hoodie/timeline/" + instant), avro());
    isRefusedInHalves(path("t/.hoodie/" + instant.replaceFirst("_[0-9]+", "")), "{\"stats\": [1]}".getBytes());
  }

  private void isRefusedInHalves(Path name, byte[] whole) throws IOException {
    FSDataOutputStream stream = fs.create(name, false);
    stream.write(whole, 0, whole.length / 2);
    stream.write(whole, whole.length / 2, whole.length - whole.length / 2 - 3);
    assertThatThrownBy(stream::close)
        .isExactlyInstanceOf(IOException.class)
        .hasMessageContaining("its bytes are not whole");
    stream.close();
    assertThat(fs.exists(name)).isFalse();

    Path temporary = path("temporary");
    try (FSDataOutputStream half = fs.create(temporary, true)) {
      half.write(whole, 0, whole.length - 3);
    }
    assertThatThrownBy(() -> fs.rename(temporary, name)).isExactlyInstanceOf(IOException.class);
    assertThat(fs.exists(temporary)).isTrue();
    assertThat(fs.exists(name)).isFalse();

    try (FSDataOutputStream again = fs.create(name, false)) {
      again.write(whole);
    }
    assertThat(Files.readAllBytes(new File(name.toUri().getPath()).toPath())).isEqualTo(whole);
  }

  /** Returns a file of Avro with one record: letters, its schema, a marker; the record, and the marker. */
  private static byte[] avro() {
    String header = "Obj\1\2\26avro.schema\20\"string\"\0";
    String marker = "0123456789abcdef";
    return (header + marker + "\2\4\2x" + marker).getBytes(StandardCharsets.ISO_8859_1);
  }

  @Test
  public void everyCreateIsGuarded() throws IOException {
    EnumSet<CreateFlag> flags = EnumSet.of(CreateFlag.CREATE, CreateFlag.OVERWRITE);
    losesBy(name -> write(fs.create(name, ANY, flags, 4096, (short) 1, 4096, null), ""));
    for (Way way :
        List.<Way>of(
            name -> write(fs.create(name, ANY, flags, 4096, (short) 1, 4096, null, null), ""),
            name -> write(fs.createNonRecursive(name, ANY, flags, 4096, (short) 1, 4096, null), ""),
            name -> write(fs.createFile(name).overwrite(true).build(), ""),
            name -> write(fs.createFile(name).recursive().build(), ""),
            name -> fs.copyFromLocalFile(local("theirs"), name),
            name -> fs.moveFromLocalFile(local("theirs"), name),
            name -> fs.completeLocalOutput(name, fs.startLocalOutput(name, local("theirs"))))) {
      assertThatThrownBy(() -> way.bring(entry(0))).isInstanceOf(FileAlreadyExistsException.class);
    }
    assertThat(read(entry(0))).isEqualTo("first");
    assertThat(fs.createNewFile(entry(0))).isFalse();
    assertThat(fs.createNewFile(entry(1))).isTrue();
  }

  Path local(String text) throws IOException {
    File file = new File(folder, UUID.randomUUID().toString());
    Files.write(file.toPath(), text.getBytes(StandardCharsets.UTF_8));
    return new Path("file:" + file);
  }

  @Test
  public void whatIsThereIsNeverChanged() throws IOException {
    create(entry(0), "first");
    for (Way way :
        List.<Way>of(
            name -> fs.append(name),
            name -> fs.appendFile(name).build(),
            name -> fs.create(name, ANY, EnumSet.of(CreateFlag.APPEND), 4096, (short) 1, 4096, null),
            name -> fs.truncate(name, 1),
            name -> fs.concat(name, new Path[] {local("more")}),
            name -> fs.createSymlink(local("theirs"), name, false))) {
      assertThatThrownBy(() -> way.bring(entry(0)))
          .isInstanceOfAny(UnsupportedOperationException.class, FileAlreadyExistsException.class);
    }
    assertThatThrownBy(() -> fs.append(entry(1))).isInstanceOf(UnsupportedOperationException.class);
    assertThat(read(entry(0))).isEqualTo("first");
  }

  @Test
  public void aFolderIsMadeUnlessTheCallerForbidsIt() throws IOException {
    Path deep = path("other/_delta_log/00000000000000000000.json");
    EnumSet<CreateFlag> flags = EnumSet.of(CreateFlag.CREATE);
    assertThatThrownBy(() -> fs.createNonRecursive(deep, ANY, flags, 4096, (short) 1, 4096, null))
        .isInstanceOf(FileNotFoundException.class);
    create(deep, "bytes");
    assertThat(read(deep)).isEqualTo("bytes");
  }

  @Test
  public void renameIsFalseWhereAnotherHoldsTheName() throws IOException {
    create(entry(0), "first");
    Path temporary = local("second");
    assertThat(fs.rename(temporary, entry(0))).isFalse();
    assertThat(read(temporary)).isEqualTo("second");
    assertThat(fs.rename(temporary, entry(1))).isTrue();
    assertThat(fs.exists(temporary)).isFalse();
    assertThat(read(entry(0)) + read(entry(1))).isEqualTo("firstsecond");
  }

  @Test
  public void renamingIntoAFolderIsACreateToo() throws IOException {
    create(entry(0), "first");
    Path temporary = path("stage/" + entry(0).getName());
    create(temporary, "second");
    assertThat(fs.rename(temporary, path("_delta_log"))).isFalse();
    assertThat(read(entry(0))).isEqualTo("first");
  }

  @Test
  public void aFileContextThrowsWhereAnotherHoldsTheName() throws Exception {
    FileContext context = context();
    create(entry(0), "first");
    Path temporary = local("second");
    for (Options.Rename option : Options.Rename.values()) {
      if (option != Options.Rename.TO_TRASH) {
        assertThatThrownBy(() -> context.rename(temporary, entry(0), option))
            .isInstanceOf(FileAlreadyExistsException.class);
      }
    }
    assertThatThrownBy(() -> context.create(entry(0), EnumSet.of(CreateFlag.CREATE, CreateFlag.OVERWRITE)).close())
        .isInstanceOf(FileAlreadyExistsException.class);
    assertThat(read(entry(0))).isEqualTo("first");
    context.rename(temporary, entry(1));
    assertThat(read(entry(1))).isEqualTo("second");
  }

  @Test
  public void aDeletedNameIsFreeAgain() throws IOException {
    create(entry(0), "first");
    assertThat(fs.delete(entry(0), false)).isTrue();
    assertThat(fs.delete(entry(0), false)).isFalse();
    create(entry(0), "second");
    assertThat(read(entry(0))).isEqualTo("second");
    assertThat(fs.delete(path("_delta_log"), true)).isTrue();
    assertThat(fs.exists(entry(0))).isFalse();
  }
}
