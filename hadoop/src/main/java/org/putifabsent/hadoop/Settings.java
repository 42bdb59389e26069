package org.putifabsent.hadoop;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;

/** Where the service is, and for whom it is asked: the keys {@code fs.putifabsent.*}. */
final class Settings {

  /** What all of them begin with. */
  static final String OURS = "fs.putifabsent.";

  /** The service: {@code http://127.0.0.1:8976}. Of several, all beside the same store, another is asked where one fails. */
  static final String ADDRESS = "fs.putifabsent.address";

  /** What the service wants presented; a credential provider may hold it. */
  static final String SECRET = "fs.putifabsent.secret";

  /** A UUID of one process's life of a writer: the driver's, which its executors share. Made where it is not said. */
  static final String SESSION = "fs.putifabsent.session";

  /** A UUID of the application. Made where it is not said. */
  static final String WRITER = "fs.putifabsent.writer";

  /** How long an answer is waited for, and as long again for what became of a call that had none. */
  static final String DEADLINE = "fs.putifabsent.deadline";

  /** How long others wait for a sign of life before they break a turn of this session. */
  static final String LEASE = "fs.putifabsent.lease";

  /** Before a scheme: the class of the filesystem that is wrapped under it. */
  static final String WRAPPED = "fs.putifabsent.wrapped.";

  private static final long DEADLINE_SECONDS = 60;
  private static final long LEASE_SECONDS = 60;
  private static final String OF_THIS_PROCESS = UUID.randomUUID().toString();

  final List<URI> addresses;
  final String secret;
  final String session;
  final String writer;
  final Duration deadline;
  final Duration lease;

  private Settings(
      List<URI> addresses, String secret, String session, String writer, Duration deadline, Duration lease) {
    this.addresses = addresses;
    this.secret = secret;
    this.session = session;
    this.writer = writer;
    this.deadline = deadline;
    this.lease = lease;
  }

  /**
   * Reads them.
   *
   * @throws IOException the address or the secret is missing, or is none
   */
  static Settings of(Configuration conf) throws IOException {
    List<URI> addresses = new ArrayList<>();
    String said = said(conf.getTrimmed(ADDRESS), ADDRESS);
    for (String each : said.split(",", -1)) {
      addresses.add(address(each.trim(), said));
    }
    char[] secret = conf.getPassword(SECRET);
    return new Settings(
        addresses,
        header(secret == null ? null : new String(secret).trim(), SECRET),
        header(conf.getTrimmed(SESSION, OF_THIS_PROCESS), SESSION),
        header(conf.getTrimmed(WRITER, OF_THIS_PROCESS), WRITER),
        duration(conf, DEADLINE, DEADLINE_SECONDS),
        duration(conf, LEASE, LEASE_SECONDS));
  }

  /** Reads one of those that are said. What it said but for where a service is would be left out of each request. */
  private static URI address(String one, String all) throws IOException {
    try {
      if (one.matches("https?://[^/?#@]+/?")) {
        return new URI(one).parseServerAuthority();
      }
    } catch (URISyntaxException error) {
      // It would say the password that there may be.
    }
    // Before an @ stands a password, which may have a comma.
    String shown = all.contains("@") ? all.substring(all.lastIndexOf('@') + 1) : one;
    throw new IOException(
        ADDRESS + ": " + shown + " is no address of a service: say http://HOST:PORT, without a path, a query, a"
            + " fragment or user info; several such, with commas between");
  }

  private static Duration duration(Configuration conf, String key, long otherwise) throws IOException {
    long seconds = conf.getTimeDuration(key, otherwise, TimeUnit.SECONDS);
    if (seconds <= 0) {
      throw new IOException(key + " must be a second or more");
    }
    return Duration.ofSeconds(seconds);
  }

  /** Returns what can be a header's value; an error of the client's would say the secret. */
  private static String header(String value, String key) throws IOException {
    if (!said(value, key).chars().allMatch(each -> each >= ' ' && each < 0x7f)) {
      throw new IOException(key + " has characters that can't be sent: say it in ASCII");
    }
    return value;
  }

  private static String said(String value, String key) throws IOException {
    if (value == null || value.isEmpty()) {
      throw new IOException(key + " is not set: names can't be guarded without the coordination service");
    }
    return value;
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof Settings)) {
      return false;
    }
    Settings that = (Settings) other;
    return addresses.equals(that.addresses)
        && secret.equals(that.secret)
        && session.equals(that.session)
        && writer.equals(that.writer)
        && deadline.equals(that.deadline)
        && lease.equals(that.lease);
  }

  @Override
  public int hashCode() {
    return Objects.hash(addresses, secret, session, writer, deadline, lease);
  }
}
