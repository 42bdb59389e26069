package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.junit.Test;

/** S3A deletes no bucket's root, nor anything in it. */
public class S3ARootTest {

  @Test
  public void whatIsNotDeletedHasNotEnded() throws IOException {
    S3AContract contract = new S3AContract(new Configuration(), true);
    contract.init();
    FileSystem fs = contract.getTestFileSystem();
    Path table = fs.makeQualified(new Path("/db/table/.hoodie"));
    GuardedNames.write(fs.create(new Path(table, "hoodie.properties")), "hoodie.table.version=6\n");
    GuardedNames.write(fs.create(new Path(table, "20260101000000000.commit.requested")), "");
    Path ledger = new Path(table, ".putifabsent/ledger");
    assertThat(Arrays.toString(fs.listStatus(ledger))).contains("-life");
    assertThat(fs.delete(new Path("/"), true)).isFalse();
    assertThat(Arrays.toString(fs.listStatus(ledger))).contains("-life");
    assertThat(fs.delete(table.getParent(), true)).isTrue();
    assertThat(fs.exists(ledger)).isFalse();
  }
}
