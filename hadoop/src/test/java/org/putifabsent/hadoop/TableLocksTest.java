package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hudi.client.transaction.lock.LockManager;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.common.config.TypedProperties;
import org.apache.hudi.common.lock.LockProvider;
import org.apache.hudi.common.util.ReflectionUtils;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.hudi.exception.HoodieLockException;
import org.apache.hudi.storage.hadoop.HadoopStorageConfiguration;
import org.apache.hudi.storage.hadoop.HoodieHadoopStorage;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.hadoop.HadoopCatalog;
import org.apache.iceberg.types.Types;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.options.Options;
import org.apache.paimon.types.DataTypes;
import org.junit.Before;
import org.junit.Test;

/** Hudi, Paimon and Iceberg, unmodified, take the turns of their tables for their locks. */
public class TableLocksTest {

  private static final long LONG = TimeUnit.MINUTES.toNanos(5);
  private static final String SHORT_MILLIS = "100";

  private File folder;

  @Before
  public void setUp() {
    folder = new File(System.getProperty("hadoop.tmp.dir"), UUID.randomUUID().toString());
    // On local disk a table's ledger has no place before the table has a folder.
    for (String table : new String[] {".hoodie", "d.db/t", "t"}) {
      assertThat(new File(folder, table).mkdirs()).isTrue();
    }
  }

  private static Configuration session() {
    Configuration conf = ServiceProcess.session(RawLocalFileSystem.class);
    conf.set("fs.file.impl", GuardedLocalFileSystem.class.getName());
    return conf;
  }

  private static Service asked(Configuration conf) throws IOException {
    return Service.of(Settings.of(conf));
  }

  private Name name(String last) {
    return Name.of(new Path("file:" + folder + "/" + last));
  }

  /** Returns how many records a table's ledger has. */
  private int records(String table) {
    String[] records = new File(folder, table + "/.putifabsent/ledger").list((in, name) -> name.matches("[^/]+[.]\\d+"));
    return records == null ? 0 : records.length;
  }

  /** What is done while another session has a table's turn. */
  private interface Work {
    void run() throws Exception;
  }

  private void whileAnotherHas(String table, Work work) throws Exception {
    Turn turn = Turn.take(asked(session()), name(table), LONG).orElseThrow();
    try {
      work.run();
    } finally {
      turn.release();
    }
  }

  // --- Hudi

  private LockManager hudi(Configuration conf, Map<String, String> options) {
    Map<String, String> said = new TreeMap<>(options);
    said.put("hoodie.write.concurrency.mode", "optimistic_concurrency_control");
    said.put("hoodie.clean.failed.writes.policy", "LAZY");
    said.put("hoodie.write.lock.provider", HudiLockProvider.class.getName());
    String base = "file:" + folder;
    HoodieWriteConfig config = HoodieWriteConfig.newBuilder().withPath(base).forTable("t").withProps(said).build();
    return new LockManager(config, new HoodieHadoopStorage(base, conf));
  }

  private LockManager hudi(Configuration conf) {
    return hudi(conf, Map.of());
  }

  @Test
  public void hudiLocksItsTableByItsTurn() throws Exception {
    Configuration conf = session();
    LockManager manager = hudi(conf);
    manager.lock();
    assertThat(Turn.held(asked(conf), name(".hoodie/timeline/1_1.commit"))).isPresent();
    assertThat(manager.getLockProvider().getCurrentOwnerLockInfo()).contains(".1 of file:" + folder);
    assertThat(Turn.take(asked(session()), name(".hoodie"), 0)).isEmpty();
    manager.unlock();
    assertThat(Turn.held(asked(conf), name(".hoodie/timeline/1_1.commit"))).isEmpty();
    whileAnotherHas(".hoodie", () -> {});
  }

  @Test
  public void hudi014LocksItsTableByItsTurn() throws Exception {
    Configuration conf = session();
    TypedProperties said = new TypedProperties();
    said.setProperty("hoodie.base.path", "file:" + folder);
    // Made as its lock manager makes one.
    Class<?>[] takes = {LockConfiguration.class, Configuration.class};
    LockProvider<?> provider =
        (LockProvider<?>)
            ReflectionUtils.loadClass(
                Hudi014LockProvider.class.getName(), takes, new LockConfiguration(said), conf);
    assertThat(provider.tryLock(0, TimeUnit.NANOSECONDS)).isTrue();
    assertThat(Turn.held(asked(conf), name(".hoodie/1.commit"))).isPresent();
    provider.unlock();
    assertThat(Turn.held(asked(conf), name(".hoodie/1.commit"))).isEmpty();
    provider.close();
  }

  @Test
  public void hudiHearsThatAnotherHasIt() throws Exception {
    Map<String, String> impatient =
        Map.of("hoodie.write.lock.wait_time_ms", SHORT_MILLIS, "hoodie.write.lock.client.num_retries", "0");
    whileAnotherHas(
        ".hoodie",
        () ->
            assertThatThrownBy(() -> hudi(session(), impatient).lock())
                .isInstanceOf(HoodieLockException.class)
                .hasMessageContaining("another session or thread has the turn"));
  }

  @Test
  public void unlockAndCloseTakeNothingFromAnother() throws Exception {
    LockManager manager = hudi(session());
    whileAnotherHas(
        ".hoodie",
        () -> {
          // Hudi does so when it has not got the lock.
          manager.unlock();
          manager.close();
          assertThat(Turn.take(asked(session()), name(".hoodie"), 0)).isEmpty();
        });
  }

  @Test
  public void aTableWithinATableGivesBackNothingOfThatsTurn() throws Exception {
    Configuration conf = session();
    LockManager manager = hudi(conf);
    manager.lock();
    TypedProperties within = new TypedProperties();
    within.setProperty("hoodie.base.path", "file:" + folder + "/.hoodie/metadata");
    LockProvider<?> other = new HudiLockProvider(new LockConfiguration(within), new HadoopStorageConfiguration(conf));
    other.unlock();
    other.close();
    assertThat(Turn.held(asked(conf), name(".hoodie/timeline/1_1.commit"))).isPresent();
    manager.unlock();
    manager.close();
  }

  @Test
  public void aTableThatNothingGuardsHasHudisOwnLock() throws Exception {
    Configuration bare = new Configuration(false);
    LockManager manager = hudi(bare);
    manager.lock();
    assertThat(records(".hoodie")).isZero();
    manager.unlock();
    manager.close();
  }

  @Test
  public void threadsThatShareALockManagerGiveBackTheirOwn() throws Exception {
    LockManager manager = hudi(session());
    manager.lock();
    ExecutorService second = Executors.newSingleThreadExecutor();
    Future<?> waiting = second.submit(manager::lock);
    // What is closed here is the provider that the other thread may be waiting in.
    manager.unlock();
    waiting.get();
    manager.unlock();
    manager.close();
    Service third = asked(session());
    assertThat(Turn.take(third, name(".hoodie"), 0)).isEmpty();
    second.submit(manager::unlock).get();
    second.shutdown();
    Optional<Turn> turn = Turn.take(third, name(".hoodie"), 0);
    assertThat(turn).isPresent();
    turn.get().release();
  }

  private HudiLockProvider provider(Configuration conf, int millis) {
    TypedProperties said = new TypedProperties();
    said.setProperty("hoodie.base.path", "file:" + folder);
    said.setProperty("hoodie.write.lock.wait_time_ms", Integer.toString(millis));
    said.setProperty("hoodie.write.lock.client.wait_time_ms_between_retry", "0");
    said.setProperty("hoodie.write.lock.client.num_retries", "1");
    return new HudiLockProvider(new LockConfiguration(said), new HadoopStorageConfiguration(conf));
  }

  @Test(timeout = 60_000)
  public void hudiWaitsToBeginForPartOfItsPatienceAndThenForTheTurnAlone() throws Exception {
    Configuration conf = session();
    try (LiarService liar = new LiarService(conf.get(Settings.ADDRESS))) {
      conf.set(Settings.ADDRESS, liar.address);
      HudiLockProvider provider = provider(conf, 400);
      ExecutorService threads = Executors.newSingleThreadExecutor();
      Turn turn = Turn.take(asked(session()), name(".hoodie"), LONG).orElseThrow();
      Future<Boolean> waiting = threads.submit(() -> provider.tryLock(Optional.of(HudiBeginning.COMMIT), LONG));
      while (liar.bodies.stream().allMatch(body -> body.contains("\"begins\":\"commit\""))) {
        Thread.sleep(10);
      }
      assertThat(liar.bodies.get(0)).contains("begins");
      turn.release();
      assertThat(waiting.get()).isTrue();
      threads.submit(provider::unlock).get();
      threads.shutdown();
    }
  }

  @Test(timeout = 60_000)
  public void hudiAsksForTheTurnAloneWhenItsPatienceIsOver() throws Exception {
    Configuration conf = session();
    try (LiarService liar = new LiarService(conf.get(Settings.ADDRESS))) {
      conf.set(Settings.ADDRESS, liar.address);
      HudiLockProvider impatient = provider(conf, 0);
      assertThat(impatient.tryLock(Optional.of(HudiBeginning.COMMIT), 0)).isTrue();
      impatient.unlock();
      HudiLockProvider patient = provider(conf, 60_000);
      assertThat(patient.tryLock(Optional.of(HudiBeginning.COMMIT), 0)).isTrue();
      patient.unlock();
      assertThat(liar.bodies.stream().filter(body -> body.contains("thread")).map(body -> body.contains("begins")))
          .containsExactly(false, true);
    }
  }

  @Test
  public void hudiOnlyInsertsWhereItNeitherReplacesRowsNorLooksForThem() {
    String operation = "hoodie.datasource.write.operation";
    assertThat(inserts(operation, "insert")).isTrue();
    assertThat(inserts(operation, "BULK_INSERT")).isTrue();
    assertThat(inserts(operation, "upsert")).isFalse();
    assertThat(inserts(operation, "insert_overwrite")).isFalse();
    assertThat(inserts("hoodie.table.name", "t")).isFalse();
    for (String looks :
        new String[] {
          "hoodie.datasource.write.insert.drop.duplicates=true",
          "hoodie.datasource.insert.dup.policy=drop",
          "hoodie.datasource.insert.dup.policy=fail",
          "hoodie.merge.allow.duplicate.on.inserts=false"
        }) {
      String[] option = looks.split("=");
      assertThat(inserts(operation, "insert", option[0], option[1])).as(looks).isFalse();
    }
  }

  private static boolean inserts(String... options) {
    TypedProperties said = new TypedProperties();
    for (int each = 0; each < options.length; each += 2) {
      said.setProperty(options[each], options[each + 1]);
    }
    return HudiBeginning.inserts(said);
  }

  @Test
  public void hudiHearsWhatIsNotSaid() {
    Configuration conf = session();
    conf.unset(Settings.ADDRESS);
    assertThatThrownBy(() -> hudi(conf).getLockProvider()).hasStackTraceContaining(Settings.ADDRESS);
  }

  // --- Paimon

  private Catalog paimon(Configuration conf, Map<String, String> options) throws Exception {
    Options said = new Options(options);
    said.set("warehouse", "file:" + folder);
    said.set("lock.enabled", "true");
    said.set("lock.type", "putifabsent");
    for (String key : new String[] {Settings.ADDRESS, Settings.SECRET, Settings.SESSION}) {
      said.set(key, conf.get(key));
    }
    Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(said));
    catalog.createDatabase("d", true);
    return catalog;
  }

  private static void createTable(Catalog catalog) throws Exception {
    catalog.createTable(
        Identifier.create("d", "t"),
        org.apache.paimon.schema.Schema.newBuilder().column("n", DataTypes.INT()).build(),
        true);
  }

  @Test
  public void paimonLocksItsTableByItsTurn() throws Exception {
    createTable(paimon(session(), Map.of()));
    assertThat(new File(folder, "d.db/t/schema/schema-0")).exists();
    assertThat(records("d.db/t")).isEqualTo(2);
  }

  @Test
  public void paimonHearsThatAnotherHasIt() throws Exception {
    Catalog catalog = paimon(session(), Map.of("lock-acquire-timeout", SHORT_MILLIS + " ms"));
    whileAnotherHas(
        "d.db/t",
        () -> assertThatThrownBy(() -> createTable(catalog)).hasRootCauseInstanceOf(TimeoutException.class));
    createTable(catalog);
  }

  @Test
  public void aBranchOfPaimonsIsInItsTablesTurn() throws Exception {
    Options said = new Options(Map.of("warehouse", "file:" + folder, "lock-acquire-timeout", SHORT_MILLIS + " ms"));
    // Through this one this session writes, so that is where its settings are.
    RawNamesTest.guarded(session());
    PaimonLockFactory locks = new PaimonLockFactory();
    whileAnotherHas(
        "d.db/t",
        () ->
            assertThatThrownBy(
                    () -> locks.createLock(() -> said).runWithLock("d", "t$branch_b", () -> "done"))
                .isInstanceOf(TimeoutException.class));
    assertThat(locks.createLock(() -> said).runWithLock("d", "t$branch_b", () -> "done")).isEqualTo("done");
  }

  // --- Iceberg

  private HadoopCatalog iceberg(Configuration conf, Map<String, String> options) {
    Map<String, String> said = new TreeMap<>(options);
    said.put("warehouse", "file:" + folder);
    said.put("lock-impl", IcebergLockManager.class.getName());
    for (String key : new String[] {Settings.ADDRESS, Settings.SECRET, Settings.SESSION}) {
      said.put(key, conf.get(key));
    }
    HadoopCatalog catalog = new HadoopCatalog();
    catalog.setConf(new Configuration());
    catalog.initialize("i", said);
    return catalog;
  }

  private static Table createTable(HadoopCatalog catalog) {
    return catalog.createTable(
        TableIdentifier.of("t"), new Schema(Types.NestedField.optional(1, "n", Types.IntegerType.get())));
  }

  @Test
  public void icebergLocksItsTableByItsTurn() throws Exception {
    try (HadoopCatalog catalog = iceberg(session(), Map.of())) {
      Table table = createTable(catalog);
      table.updateProperties().set("who", "me").commit();
      assertThat(new File(folder, "t/metadata/v2.metadata.json")).exists();
      assertThat(records("t")).isEqualTo(4);
    }
  }

  @Test
  public void icebergHearsThatAnotherHasIt() throws Exception {
    try (HadoopCatalog catalog = iceberg(session(), Map.of("lock.acquire-timeout-ms", SHORT_MILLIS))) {
      Table table = createTable(catalog);
      table.updateProperties().set("commit.retry.num-retries", "0").commit();
      whileAnotherHas(
          "t",
          () ->
              assertThatThrownBy(() -> table.updateProperties().set("who", "me").commit())
                  .isInstanceOf(CommitFailedException.class));
      table.updateProperties().set("who", "me").commit();
    }
  }

  @Test
  public void icebergGivesBackWhatItsOwnerHasTaken() throws Exception {
    Configuration conf = session();
    RawNamesTest.guarded(conf);
    String entity = "file:" + folder + "/t/metadata/v1.metadata.json";
    try (IcebergLockManager locks = new IcebergLockManager()) {
      locks.initialize(Map.of());
      assertThat(locks.acquire(entity, "one")).isTrue();
      assertThat(Turn.held(asked(conf), name("t/metadata/v1.metadata.json"))).isPresent();
      assertThat(locks.release(entity, "another")).isFalse();
      assertThat(locks.release(entity, "one")).isTrue();
      assertThat(locks.release(entity, "one")).isFalse();
    }
  }

  @Test
  public void icebergHearsWhenNobodyCanBeAsked() throws Exception {
    Configuration conf = session();
    conf.set(Settings.ADDRESS, "http://127.0.0.1:1");
    conf.set(Settings.DEADLINE, "1s");
    RawNamesTest.guarded(conf);
    try (IcebergLockManager locks = new IcebergLockManager()) {
      assertThatThrownBy(() -> locks.acquire("file:" + folder + "/t/metadata/v1.metadata.json", "one"))
          .isInstanceOf(UncheckedIOException.class)
          .hasMessageContaining("127.0.0.1:1");
    }
  }
}
