package org.putifabsent.hadoop;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.contract.AbstractBondedFSContract;

/** What Hadoop promises of S3A, of a guarded one or a bare one, on the real server that {@code PUTIFABSENT_S3} says. */
final class S3AContract extends AbstractBondedFSContract {

  private static final JsonObject SERVER = JsonParser.parseString(System.getenv("PUTIFABSENT_S3")).getAsJsonObject();
  private static final ServiceProcess SERVICE = service();

  S3AContract(Configuration conf, boolean guarded) {
    super(conf);
    addConfResource("contract/s3a.xml");
    conf.set("fs.contract.test.fs.s3a", "s3a://" + said("bucket"));
    // The same address is sometimes guarded.
    conf.set("fs.s3a.impl.disable.cache", "true");
    // A server that refuses what S3A would not, refuses it again.
    conf.set("fs.s3a.attempts.maximum", "1");
    conf.set("fs.s3a.retry.limit", "1");
    conf.set("fs.s3a.endpoint", said("endpoint"));
    conf.set("fs.s3a.endpoint.region", said("region"));
    conf.set("fs.s3a.access.key", said("key"));
    conf.set("fs.s3a.secret.key", said("secret"));
    conf.set("fs.s3a.path.style.access", "true");
    conf.set("fs.s3a.directory.marker.retention", "keep");
    if (guarded) {
      conf.set(Settings.WRAPPED + "s3a", conf.get("fs.s3a.impl"));
      conf.setClass("fs.s3a.impl", GuardedFileSystem.class, FileSystem.class);
      SERVICE.tell(conf);
    }
  }

  private static String said(String field) {
    return SERVER.get(field).getAsString();
  }

  private static ServiceProcess service() {
    JsonObject client = new JsonObject();
    client.addProperty("region_name", said("region"));
    JsonObject options = new JsonObject();
    options.addProperty("endpoint_url", said("endpoint"));
    options.addProperty("key", said("key"));
    options.addProperty("secret", said("secret"));
    options.add("client_kwargs", client);
    try {
      return ServiceProcess.start(0, 1 << 20, "s3a://", options);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public String getScheme() {
    return "s3a";
  }
}
