package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.net.URI;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.junit.Test;

/** What the client would encrypt is not guarded, for the service would write it in clear. */
public class ClientEncryptionTest {

  private static final URI LAKE = URI.create("s3a://lake");
  private static final String OF_LAKE = "fs.s3a.bucket.lake.encryption.algorithm";

  private static Configuration with(String... said) {
    Configuration conf = ServiceProcess.session(RawLocalFileSystem.class);
    conf.setClass(Settings.WRAPPED + "s3a", S3AFileSystem.class, FileSystem.class);
    for (int at = 0; at < said.length; at += 2) {
      conf.set(said[at], said[at + 1]);
    }
    return conf;
  }

  @Test
  public void aBucketWithEncryptionOnTheClientIsRefused() {
    for (Configuration conf :
        List.of(
            with("fs.s3a.encryption.algorithm", "CSE-KMS"),
            with("fs.s3a.encryption.algorithm", "cse-custom"),
            with("fs.s3a.server-side-encryption-algorithm", "CSE-KMS"),
            with(OF_LAKE, "CSE-CUSTOM"),
            with("fs.s3a.bucket.lake.fs.s3a.encryption.algorithm", "CSE-KMS", OF_LAKE, "SSE-KMS"),
            with("fs.s3a.encryption.algorithm", "SSE-KMS", OF_LAKE, "CSE-KMS"))) {
      assertThatThrownBy(
              () -> {
                try (FileSystem guarded = new GuardedFileSystem()) {
                  guarded.initialize(LAKE, conf);
                }
              })
          .isInstanceOf(IOException.class)
          .hasMessageContaining("encryption.algorithm is ")
          .hasMessageContaining("in clear");
    }
  }

  @Test
  public void allOthersAreNot() throws IOException {
    FileSystem s3a = new S3AFileSystem();
    ClientEncryption.refuse(s3a, LAKE, with());
    ClientEncryption.refuse(s3a, LAKE, with("fs.s3a.encryption.algorithm", "SSE-KMS"));
    ClientEncryption.refuse(s3a, LAKE, with("fs.s3a.bucket.other.encryption.algorithm", "CSE-KMS"));
    ClientEncryption.refuse(
        s3a,
        LAKE,
        with("fs.s3a.encryption.algorithm", "CSE-KMS", OF_LAKE, "SSE-S3"));
    ClientEncryption.refuse(
        s3a, LAKE, with("fs.s3a.bucket.lake.fs.s3a.encryption.algorithm", "SSE-KMS", OF_LAKE, "CSE-KMS"));
    ClientEncryption.refuse(new RawLocalFileSystem(), LAKE, with("fs.s3a.encryption.algorithm", "CSE-KMS"));
  }
}
