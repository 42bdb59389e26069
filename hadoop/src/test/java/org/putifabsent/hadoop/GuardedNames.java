package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.commons.io.IOUtils;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
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

  private interface Copying {
    void copy(Path source, Path target) throws IOException;
  }

  /** The numbered names of tables, and what is beside them. */
  private static final List<List<String>> TABLES =
      List.of(
          List.of("_delta_log/%020d.json", "part-0.parquet"),
          List.of("snapshot/snapshot-%d", "schema/schema-%d", "bucket-0/part-0.parquet"),
          List.of("metadata/v%d.metadata.json", "metadata/version-hint.text"),
          List.of("offsets/%d", "commits/%d", "metadata"),
          List.of("_spark_metadata/%d", "part-0.parquet"),
          List.of(
              ".hoodie/timeline/20260101%09d.compaction.requested",
              ".hoodie/timeline/20260101%09d.compaction.inflight",
              ".hoodie/timeline/20260101%09d_20260202000000000.commit",
              ".hoodie/hoodie.properties"));

  private static final int FIRST = 85;

  /** By name, 100 comes before 85; and what came before that has expired. */
  private void arriveWhole(String how, int count, Copying copying) throws IOException {
    for (List<String> table : TABLES) {
      Path source = path(how + "/" + TABLES.indexOf(table) + "/from");
      Path target = path(how + "/" + TABLES.indexOf(table) + "/to");
      Set<String> files = new LinkedHashSet<>();
      for (int number = FIRST; number < FIRST + count / (table.size() - 1); number++) {
        for (String name : table) {
          files.add(String.format(name, number));
        }
      }
      for (String file : files) {
        File local = new File(new Path(source, file).toUri().getPath());
        assertThat(local.getParentFile().mkdirs() || local.getParentFile().isDirectory()).isTrue();
        Files.write(local.toPath(), contentOf(file).getBytes(StandardCharsets.UTF_8));
      }
      copying.copy(source, target);
      for (String file : files) {
        assertThat(read(new Path(target, file))).isEqualTo(contentOf(file));
      }
      Path next = new Path(target, String.format(table.get(0), FIRST + count / (table.size() - 1)));
      create(next, contentOf("the next commit"));
      assertThatThrownBy(() -> create(next, contentOf("another's"))).isInstanceOf(FileAlreadyExistsException.class);
    }
  }

  private static String contentOf(String file) {
    return "v1\n{}\n{\"file\": \"" + file + "\"}";
  }

  @Test
  public void wholeTablesAreCopiedAndCommittedTo() throws IOException {
    arriveWhole("copied", 200, (source, target) -> FileUtil.copy(fs, source, fs, target, false, fs.getConf()));
  }

  @Test
  public void wholeTablesAreUploadedAndCommittedTo() throws IOException {
    arriveWhole("uploaded", 60, (source, target) -> fs.copyFromLocalFile(source, target));
  }

  @Test
  public void aCopiedTableHasALedgerOfItsOwn() throws IOException {
    String instant = "t/.hoodie/timeline/2026010112000000";
    List<String> steps = List.of("1.commit.requested", "1.inflight", "1_20260101120100001.commit");
    create(path("t/.hoodie/hoodie.properties"), "hoodie.table.version=9\n");
    for (String step : steps) {
      create(path(instant + step), "{}");
    }
    assertThat(new File(folder, "t/.hoodie/.putifabsent/ledger")).exists();
    FileUtil.copy(fs, path("t"), fs, path("copy/t"), false, fs.getConf());
    for (String step : steps) {
      assertThat(read(path("copy/" + instant + step))).isEqualTo("{}");
    }
    for (String root : List.of("", "copy/")) {
      for (String step : steps) {
        create(path(root + instant + step.replace('1', '2')), "{}");
      }
    }
    String[] lives = new String[2];
    for (String root : List.of("", "copy/")) {
      lives[root.length() / 5] = read(path(root + "t/.hoodie/.putifabsent/ledger/-life"));
    }
    assertThat(lives[0]).isNotEqualTo(lives[1]);
  }

  /** Later releases of Hadoop copy by this one. */
  @Test
  public void bothListingsOfAFolderHaveItsNumbersInAscendingOrder() throws Exception {
    for (String file : List.of("v10.metadata.json", "v9.metadata.json", "v100.metadata.json", "b", "a-9", "a-10")) {
      write(fs.create(path("listed/" + file)), "{}");
    }
    List<String> listed = namesOf(fs.listStatus(path("listed")));
    List<String> one = namesOf(fs.listStatusIterator(path("listed")));
    List<String> another = namesOf(context().listStatus(path("listed")));
    for (List<String> names : List.of(listed, one, another)) {
      assertThat(names)
          .containsSubsequence("v9.metadata.json", "v10.metadata.json", "v100.metadata.json")
          .contains("b", "a-9", "a-10")
          .hasSize(6);
    }
  }

  @Test
  public void aPatternFindsTheNumbersOfEachFolderInAscendingOrder() throws IOException {
    for (String file : List.of("a/snapshot-9", "a/snapshot-10", "b/snapshot-8", "b/snapshot-11")) {
      write(fs.create(path("found/" + file)), "{}");
    }
    assertThat(new File(folder, "found/.putifabsent").mkdirs()).isTrue();
    assertThat(namesOf(fs.globStatus(path("found/*/snapshot-*"))))
        .containsExactly("snapshot-9", "snapshot-10", "snapshot-8", "snapshot-11");
    assertThat(namesOf(fs.globStatus(path("found/*"), each -> true))).containsExactly("a", "b");
    assertThat(namesOf(fs.globStatus(path("found/.putifabsent")))).containsExactly(".putifabsent");
    assertThat(fs.globStatus(path("nowhere"))).isNull();
  }

  @Test
  public void noListingShowsWhatIsKeptBesideATable() throws Exception {
    for (String file : List.of("t/data", "t/.putifabsent/record", "t/.hoodie/.putifabsent/ledger/record")) {
      assertThat(new File(folder, file).getParentFile().mkdirs() || new File(folder, "t").isDirectory()).isTrue();
      Files.write(new File(folder, file).toPath(), new byte[1]);
    }
    FileContext context = context();
    assertThat(namesOf(fs.listStatus(path("t")))).containsExactlyInAnyOrder("data", ".hoodie");
    assertThat(namesOf(fs.listStatusIterator(path("t")))).containsExactlyInAnyOrder("data", ".hoodie");
    assertThat(namesOf(fs.listLocatedStatus(path("t")))).containsExactlyInAnyOrder("data", ".hoodie");
    assertThat(namesOf(fs.listFiles(path("t"), true))).containsExactly("data");
    assertThat(namesOf(context.listStatus(path("t")))).containsExactlyInAnyOrder("data", ".hoodie");
    assertThat(namesOf(context.listLocatedStatus(path("t")))).containsExactlyInAnyOrder("data", ".hoodie");
    assertThat(namesOf(context.util().listFiles(path("t"), true))).containsExactly("data");
    assertThat(namesOf(fs.listFiles(path("t/.putifabsent"), true))).containsExactly("record");
  }

  private static List<String> namesOf(FileStatus[] listed) {
    return Arrays.stream(listed).map(each -> each.getPath().getName()).collect(Collectors.toList());
  }

  private static List<String> namesOf(RemoteIterator<? extends FileStatus> listed) throws IOException {
    List<String> names = new ArrayList<>();
    while (listed.hasNext()) {
      names.add(listed.next().getPath().getName());
    }
    return names;
  }
}
