package org.putifabsent.hadoop;

import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;

/** S3A's encryption on the client, of which the service knows nothing: it would write guarded names in clear. */
final class ClientEncryption {

  private static final String S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem";
  private static final String S3A_KEYS = "fs.s3a.";
  private static final List<String> OPTIONS = List.of("encryption.algorithm", "server-side-encryption-algorithm");

  private ClientEncryption() {
    // Is never made.
  }

  /**
   * Refuses a filesystem that encrypts what it writes.
   *
   * @throws IOException it is said to, for all buckets or for this one
   */
  static void refuse(FileSystem wrapped, URI uri, Configuration conf) throws IOException {
    if (!isS3A(wrapped.getClass())) {
      return;
    }
    for (String key : keys("fs.s3a.bucket." + uri.getHost() + ".")) {
      char[] said = conf.getPassword(key);
      String algorithm = said == null ? "" : new String(said).trim();
      if (algorithm.toUpperCase(Locale.ROOT).startsWith("CSE-")) {
        throw new IOException(
            key + " is " + algorithm + ": guarded names would lie in " + uri
                + " in clear, and encryption on the client is not supported");
      }
      if (!algorithm.isEmpty()) {
        return;
      }
    }
  }

  /** Returns where S3A looks, in its order: what is said of the bucket, by the whole key or not, then of all. */
  private static List<String> keys(String ofBucket) {
    List<String> found = new ArrayList<>();
    for (String option : OPTIONS) {
      found.add(ofBucket + S3A_KEYS + option);
      found.add(ofBucket + option);
    }
    OPTIONS.forEach(option -> found.add(S3A_KEYS + option));
    return found;
  }

  static boolean isS3A(Class<?> kind) {
    return kind != null && (kind.getName().equals(S3A) || isS3A(kind.getSuperclass()));
  }
}
