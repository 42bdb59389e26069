package org.putifabsent.hadoop;

import java.io.IOException;
import java.net.URI;
import java.time.Duration;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;

/** Where the service is, and for whom it is asked: the keys {@code fs.putifabsent.*}. */
final class Settings {

  /** The service: {@code http://127.0.0.1:8976}. */
  static final String ADDRESS = "fs.putifabsent.address";

  /** What the service wants presented; a credential provider may hold it. */
  static final String SECRET = "fs.putifabsent.secret";

  /** A UUID of one process's life of a writer: the driver's, which its executors share. Made where it is not said. */
  static final String SESSION = "fs.putifabsent.session";

  /** A UUID of the application. Made where it is not said. */
  static final String WRITER = "fs.putifabsent.writer";

  /** How long an answer is waited for, and as long again for what became of a call that had none. */
  static final String DEADLINE = "fs.putifabsent.deadline";

  /** Before a scheme: the class of the filesystem that is wrapped under it. */
  static final String WRAPPED = "fs.putifabsent.wrapped.";

  private static final long DEADLINE_SECONDS = 60;
  private static final String OF_THIS_PROCESS = UUID.randomUUID().toString();

  final URI address;
  final String secret;
  final String session;
  final String writer;
  final Duration deadline;

  private Settings(URI address, String secret, String session, String writer, Duration deadline) {
    this.address = address;
    this.secret = secret;
    this.session = session;
    this.writer = writer;
    this.deadline = deadline;
  }

  /**
   * Reads them.
   *
   * @throws IOException the address or the secret is missing, or is none
   */
  static Settings of(Configuration conf) throws IOException {
    URI address;
    try {
      address = URI.create(said(conf.getTrimmed(ADDRESS), ADDRESS)).parseServerAuthority();
    } catch (IllegalArgumentException | java.net.URISyntaxException error) {
      throw new IOException(ADDRESS + " is no address of a service: say http://HOST:PORT", error);
    }
    if (address.getHost() == null || !("http".equals(address.getScheme()) || "https".equals(address.getScheme()))) {
      throw new IOException(ADDRESS + " is no address of a service: say http://HOST:PORT");
    }
    char[] secret = conf.getPassword(SECRET);
    long deadline = conf.getTimeDuration(DEADLINE, DEADLINE_SECONDS, TimeUnit.SECONDS);
    if (deadline <= 0) {
      throw new IOException(DEADLINE + " must be a second or more");
    }
    return new Settings(
        address,
        header(secret == null ? null : new String(secret).trim(), SECRET),
        header(conf.getTrimmed(SESSION, OF_THIS_PROCESS), SESSION),
        header(conf.getTrimmed(WRITER, OF_THIS_PROCESS), WRITER),
        Duration.ofSeconds(deadline));
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
    return address.equals(that.address)
        && secret.equals(that.secret)
        && session.equals(that.session)
        && writer.equals(that.writer)
        && deadline.equals(that.deadline);
  }

  @Override
  public int hashCode() {
    return Objects.hash(address, secret, session, writer, deadline);
  }
}
