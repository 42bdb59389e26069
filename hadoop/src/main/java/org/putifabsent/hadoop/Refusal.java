package org.putifabsent.hadoop;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.OptionalDouble;
import java.util.Properties;
import java.util.Set;

/** An answer of the service that is an error: its word for it, and a sentence. */
final class Refusal extends Exception {

  /** Another creation provably holds the name. */
  static final String TAKEN = "taken";

  /** It, or the folder that it should be in, is not there. */
  static final String ABSENT = "absent";

  /** The name is a folder's. */
  static final String FOLDER = "folder";

  /** The call is none that the service knows. */
  static final String REQUEST = "request";

  /** Nothing was done: ask again. */
  static final String BUSY = "busy";

  /** Nothing was done: the service has another secret. */
  static final String SECRET = "secret";

  private static final long serialVersionUID = 1L;
  private static final Set<String> UNDECIDED = Set.of("unknown", "error", "internal");
  private static final Set<String> WORTH_ANOTHER = Set.of("unknown", "slow");
  private static final Set<String> UNBEGUN = Set.of(BUSY, SECRET);
  private static final Properties CLASSES = classes();

  final String kind;

  /** For how many seconds the holder of a name that is taken has had it at least. */
  private final OptionalDouble age;

  Refusal(String kind, String message, OptionalDouble age) {
    super(message);
    this.kind = kind;
    this.age = age;
  }

  /** Whether the name was another's before a creation of it that began so long ago. */
  boolean provesLoss(Duration sinceBegun) {
    return kind.equals(TAKEN) && age.isPresent() && age.getAsDouble() > sinceBegun.toNanos() / 1e9;
  }

  /** Whether it is known that nothing was created; another program on the way may answer as well. */
  boolean isDecided() {
    return UNBEGUN.contains(kind) || (CLASSES.containsKey(kind) && !UNDECIDED.contains(kind));
  }

  /** Whether a call that may be made again is to be: the service has not said no to it. */
  boolean isWorthAnother() {
    return WORTH_ANOTHER.contains(kind) || !(UNBEGUN.contains(kind) || CLASSES.containsKey(kind));
  }

  /** What a writer on Hadoop knows this error as; a word that this table has not is an {@link IOException}. */
  IOException asHadoopSays() {
    String name = CLASSES.getProperty(kind, IOException.class.getName());
    try {
      return Class.forName(name)
          .asSubclass(IOException.class)
          .getDeclaredConstructor(String.class)
          .newInstance(getMessage());
    } catch (ReflectiveOperationException error) {
      return new IOException(getMessage(), error);
    }
  }

  private static Properties classes() {
    Properties classes = new Properties();
    try (InputStream file = Refusal.class.getResourceAsStream("errors.properties")) {
      if (file == null) {
        throw new FileNotFoundException("errors.properties");
      }
      classes.load(file);
    } catch (IOException error) {
      throw new ExceptionInInitializerError(error);
    }
    return classes;
  }
}
