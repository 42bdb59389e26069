package org.putifabsent.hadoop;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;

/** A real coordination service, in a process of its own. */
final class ServiceProcess implements Closeable {

  static final String SECRET = "a secret of more than sixteen characters";

  private static final Pattern COUNT = Pattern.compile("putifabsent_calls_total\\{call=\"([^\"]+)\"[^}]*\\} (\\d+)");
  private static final ServiceProcess OF_ALL_FILES = forAllTests();

  final String address;
  private final Process process;

  private ServiceProcess(JsonObject settings) throws IOException {
    File errors = new File(System.getProperty("hadoop.tmp.dir"), "service-" + UUID.randomUUID() + ".log");
    errors.getParentFile().mkdirs();
    process =
        new ProcessBuilder(System.getProperty("putifabsent.command"), "serve", "-").redirectError(errors).start();
    try (OutputStream input = process.getOutputStream()) {
      input.write(settings.toString().getBytes(StandardCharsets.UTF_8));
    }
    BufferedReader output =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    String said = output.readLine();
    if (said == null) {
      throw new IOException("the service did not start: see " + errors);
    }
    address = JsonParser.parseString(said).getAsJsonObject().get("address").getAsString();
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
  }

  /** Starts one that answers for all local files, at a port or (0) at any, and takes so many bytes for a name. */
  static ServiceProcess start(int port, int largestBody) throws IOException {
    return start(port, largestBody, "file:/", new JsonObject());
  }

  /** Starts one that answers for what begins so, by a filesystem with these options. */
  static ServiceProcess start(int port, int largestBody, String prefix, JsonObject options) throws IOException {
    JsonObject mount = new JsonObject();
    mount.addProperty("prefix", prefix);
    mount.add("options", options);
    JsonArray mounts = new JsonArray();
    mounts.add(mount);
    JsonObject settings = new JsonObject();
    settings.addProperty("secret", SECRET);
    settings.addProperty("port", port);
    settings.addProperty("largest_body", largestBody);
    settings.add("mounts", mounts);
    return new ServiceProcess(settings);
  }

  private static ServiceProcess forAllTests() {
    try {
      return start(0, 1 << 20);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Returns what a session says that asks the one service of all tests. */
  static Configuration session(Class<? extends FileSystem> wrapped) {
    return session(OF_ALL_FILES.address, wrapped);
  }

  /** Returns what a session says that asks the service there. */
  static Configuration session(String address, Class<? extends FileSystem> wrapped) {
    Configuration conf = new Configuration();
    tell(conf, address);
    conf.setClass(Settings.WRAPPED + "file", wrapped, FileSystem.class);
    return conf;
  }

  /** Tells a session of the one service of all tests. */
  static void tellOfAllFiles(Configuration conf) {
    tell(conf, OF_ALL_FILES.address);
  }

  /** Tells another session of it. */
  void tell(Configuration conf) {
    tell(conf, address);
  }

  private static void tell(Configuration conf, String address) {
    conf.set(Settings.ADDRESS, address);
    conf.set(Settings.SECRET, SECRET);
    conf.set(Settings.SESSION, UUID.randomUUID().toString());
  }

  int port() {
    return URI.create(address).getPort();
  }

  /** Returns how many calls of each kind it has answered. */
  Map<String, Integer> answered() throws IOException, InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(address + "/v1/metrics")).header("Authorization", "Bearer " + SECRET).build();
    String text = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();
    Map<String, Integer> counts = new TreeMap<>();
    Matcher matcher = COUNT.matcher(text);
    while (matcher.find()) {
      counts.merge(matcher.group(1), Integer.valueOf(matcher.group(2)), Integer::sum);
    }
    return counts;
  }

  /** Asks it to end, after what it has begun; returns when it has. */
  void end() throws InterruptedException {
    process.destroy();
    process.waitFor();
  }

  @Override
  public void close() throws IOException {
    process.destroyForcibly();
    try {
      process.waitFor(10, TimeUnit.SECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
