package org.putifabsent.hadoop;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateException;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.regex.Pattern;

/**
 * The coordination service, as one process's session asks it.
 *
 * <p>What may be asked twice is, until the deadline: while the service is restarted, say. A creation is sent
 * once. When its answer is lost, its token is resolved, by whichever service then answers. Of several services one is
 * asked until it fails, and then the next.
 */
final class Service {

  private static final Map<Settings, Service> SHARED = new ConcurrentHashMap<>();
  private static final int ADMITTED = 256;
  private static final long LONGEST_PAUSE_MILLIS = 2000;

  /**
   * So long it is good which names need be asked about, and what is admitted: a service may be started anew, with other
   * mounts, and an instant of this session's be rolled back.
   */
  private static final Duration LONGEST_KNOWN = Duration.ofMinutes(1);

  /** What may be sent again is not waited for until the deadline, but for this part of it. */
  private static final int TRIES = 4;

  /** A request, but for which service it goes to. */
  private interface Request {
    HttpRequest to(URI address);
  }

  private final Settings settings;
  /** Counts on whenever the service that is asked fails, and so says which one is. */
  private final AtomicInteger current = new AtomicInteger();
  private final Map<String, Names> names = new ConcurrentHashMap<>();
  /** What is admitted, and since when. */
  private final ConcurrentLinkedDeque<Map.Entry<Pattern, Elapsed>> admitted = new ConcurrentLinkedDeque<>();

  private Service(Settings settings) {
    this.settings = settings;
  }

  /** Returns the one service of these settings in this process. */
  static Service of(Settings settings) {
    return SHARED.computeIfAbsent(settings, Service::new);
  }

  /** Which names need be asked about, and how many bytes the service takes for one. */
  static final class Names {
    final Pattern pattern;
    final long largestBody;
    final Elapsed since;

    Names(Pattern pattern, long largestBody, Elapsed since) {
      this.pattern = pattern;
      this.largestBody = largestBody;
      this.since = since;
    }

    static Names of(JsonObject said, Elapsed since) {
      Pattern pattern = Pattern.compile(text(said, "pattern").orElseThrow());
      return new Names(pattern, said.get("largest_body").getAsLong(), since);
    }
  }

  /** Asks for all names of a filesystem which of them need be asked about: once a minute, if it is used. */
  Names names(Name root) throws IOException {
    return names(root, new Elapsed());
  }

  Names names(Name root, Elapsed now) throws IOException {
    Names known = names.get(root.address);
    if (known == null || !isGood(known.since, now)) {
      known = known == null ? namesAtFirst(root, now) : namesAgain(root, now, known);
      names.put(root.address, known);
    }
    return known;
  }

  private static boolean isGood(Elapsed since, Elapsed now) {
    return since.until(now).compareTo(LONGEST_KNOWN) <= 0;
  }

  private Names namesAtFirst(Name root, Elapsed now) throws IOException {
    try {
      return asked("names", said(root), said -> Names.of(said, now));
    } catch (Refusal refusal) {
      throw refusal.asHadoopSays();
    }
  }

  /** Asks one time: whoever writes what nobody guards must not wait for a service that is away. */
  private Names namesAgain(Name root, Elapsed now, Names known) {
    int number = current.get();
    URI address = address(number);
    try {
      HttpRequest request = request("names", said(root)).to(address);
      return read(sent(request, settings.deadline.dividedBy(TRIES)), address, said -> Names.of(said, now));
    } catch (IOException away) {
      moveOn(number);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return known;
    } catch (Refusal refusal) {
      // So are guarded names refused then, each by itself.
    }
    return new Names(known.pattern, known.largestBody, now);
  }

  /**
   * Asks what a plain write is, which may ask to overwrite.
   *
   * @throws Refusal another creation holds the name, or another session the instant that it belongs to
   */
  Admission admit(Name name, boolean overwrite) throws IOException, Refusal {
    return admit(name, overwrite, new Elapsed());
  }

  Admission admit(Name name, boolean overwrite, Elapsed now) throws IOException, Refusal {
    for (Map.Entry<Pattern, Elapsed> each : admitted) {
      if (isGood(each.getValue(), now) && each.getKey().matcher(name.filesystem() + name.full).matches()) {
        return Admission.PLAIN;
      }
    }
    refuseInterrupted();
    JsonObject said = said(name);
    said.addProperty("overwrite", overwrite);
    return asked(
        "admit",
        said,
        answer -> {
          Admission admission = new Admission(isTrue(answer, "guarded"), text(answer, "at").orElse(null));
          text(answer, "also").ifPresent(also -> remember(name, also, now));
          return admission;
        });
  }

  private void remember(Name name, String also, Elapsed now) {
    // It is about full names: of this filesystem.
    admitted.addFirst(Map.entry(Pattern.compile(Pattern.quote(name.filesystem()) + "(?:" + also + ")"), now));
    if (admitted.size() > ADMITTED) {
      admitted.pollLast();
    }
  }

  /** What became of a creation. */
  static final class Created {
    /** Whether it was one. */
    final boolean guarded;
    /** Whether the store shows all that is completed in the table. */
    final boolean shown;

    Created(boolean guarded, JsonObject answer) {
      this.guarded = guarded;
      shown = !answer.has("shown") || isTrue(answer, "shown");
    }
  }

  /**
   * Creates a guarded name; false, and nothing was done: it is not one. Only a name that a command of its format
   * overwrites on purpose is overwritten, if that is asked for.
   *
   * @throws OutcomeUnknownException it may be created, or not
   * @throws InterruptedIOException the same, as the thread is wanted elsewhere; that is its cause
   */
  boolean create(Name name, byte[] bytes, int length, boolean overwrite) throws IOException, Refusal {
    String token = UUID.randomUUID().toString();
    String query = "create?path=" + encoded(name.address) + "&token=" + token + "&overwrite=" + overwrite;
    return Turn.within(
        this,
        name,
        turn -> {
          String within = query + turn.map(called -> "&turn=" + encoded(called)).orElse("");
          return created(name, token, request(within, BodyPublishers.ofByteArray(bytes, 0, length)));
        });
  }

  /**
   * Creates a guarded name from another file, which goes then; false, and nothing was done: nobody must hear of it.
   *
   * @throws OutcomeUnknownException it may be created, or not
   * @throws InterruptedIOException the same, as the thread is wanted elsewhere; that is its cause
   */
  boolean rename(Name source, Name name) throws IOException, Refusal {
    String token = UUID.randomUUID().toString();
    JsonObject said = said(name);
    said.addProperty("source", source.address);
    said.addProperty("token", token);
    return Turn.within(
        this,
        name,
        turn -> {
          turn.ifPresent(called -> said.addProperty("turn", called));
          return created(name, token, request("rename", said));
        });
  }

  /** Removes what somebody must hear of; false, and nothing was done: nobody must. */
  boolean delete(Name name, boolean recursive) throws IOException, Refusal {
    refuseInterrupted();
    Turn.releaseIn(name);
    JsonObject said = said(name);
    said.addProperty("recursive", recursive);
    return answered(request("delete", said), false, answer -> isTrue(answer, "guarded"));
  }

  /** Whether another one works for the same session, by whichever services, and however patiently. */
  boolean isFor(Service other) {
    return settings.session.equals(other.settings.session);
  }

  /** How long others wait for a sign of life before they break a turn. */
  Duration lease() {
    return settings.lease;
  }

  /** How long a call may take, however often it is asked again. */
  Duration longestCall() {
    return settings.deadline.multipliedBy(2);
  }

  /** What became of asking for a turn: what it is called, or who is to be waited for. */
  static final class Taken {
    final Optional<String> turn;
    final Optional<String> behind;
    /** No other session has written to the table for long. */
    final boolean alone;

    Taken(JsonObject said) {
      Objects.requireNonNull(said.get("turn"));
      turn = text(said, "turn");
      behind = text(said, "behind");
      alone = said.has("alone") && isTrue(said, "alone");
    }
  }

  /** Takes the turn of a table. The same call again is answered with the same turn. */
  Taken take(Name table, String token, String thread) throws IOException, Refusal {
    return asked("turns/take", turn(table, token, thread), Taken::new);
  }

  /** Takes the turn of a table, to begin something in it, which had better wait for others that write the same. */
  Taken toBegin(String what, long commits, Name table, String token, String thread) throws IOException, Refusal {
    JsonObject said = turn(table, token, thread);
    said.addProperty("begins", what);
    said.addProperty("commits", commits);
    try {
      return asked("turns/take", said, Taken::new);
    } catch (Refusal refusal) {
      if (!refusal.kind.equals(Refusal.REQUEST)) {
        throw refusal;
      }
      // The service is older than this, and knows of no waiting.
      return take(table, token, thread);
    }
  }

  private JsonObject turn(Name table, String token, String thread) {
    JsonObject said = said(table);
    said.addProperty("token", token);
    said.addProperty("thread", thread);
    said.addProperty("lease", settings.lease.toSeconds());
    return said;
  }

  /** Gives a sign of life for a turn; whether it is still held is said later. */
  CompletableFuture<Boolean> beat(Name table, String turn) {
    int number = current.get();
    HttpRequest request = request("turns/beat", said(table, turn)).to(address(number));
    Sender sender = Sender.to(request.uri(), System.nanoTime(), System.currentTimeMillis());
    return sender.sending(request)
        .orTimeout(settings.lease.dividedBy(TRIES).toMillis(), TimeUnit.MILLISECONDS)
        .whenComplete((response, error) -> sender.hears(request.uri(), error))
        .thenApply(
            response -> {
              try {
                return read(response, address(number), answer -> isTrue(answer, "held"));
              } catch (IOException | Refusal error) {
                throw new CompletionException(error);
              }
            })
        .whenComplete(
            (held, error) -> {
              if (error != null) {
                moveOn(number);
              }
            });
  }

  /** Gives a turn back; false: it was not held any more, or this was said before. */
  boolean release(Name table, String turn) throws IOException, Refusal {
    return asked("turns/release", said(table, turn), answer -> isTrue(answer, "held"));
  }

  private Created created(Name name, String token, Request request) throws IOException, Refusal {
    refuseInterrupted();
    Elapsed begun = new Elapsed();
    try {
      return answered(request, false, answer -> new Created(isTrue(answer, "guarded"), answer));
    } catch (Refusal refusal) {
      if (refusal.isDecided()) {
        throw refusal;
      }
      return resolved(name, token, begun, refusal);
    } catch (Unreached nothing) {
      throw nothing;
    } catch (IOException lost) {
      return resolved(name, token, begun, lost);
    }
  }

  private Created resolved(Name name, String token, Elapsed begun, Exception lost) throws IOException, Refusal {
    JsonObject said = said(name);
    said.addProperty("token", token);
    Pauses pauses = pauses();
    do {
      try {
        Created found = asked("resolve", said, answer -> new Created(isHeld(answer), answer));
        if (found.guarded) {
          return found;
        }
      } catch (Refusal refusal) {
        if (refusal.provesLoss(begun.now())) {
          throw refusal;
        }
        if (refusal.kind.equals(Refusal.TAKEN)) {
          // It may have come after mine, which was read, and deleted.
          lost.addSuppressed(refusal);
          break;
        }
      } catch (IOException error) {
        lost.addSuppressed(error);
        break;
      }
    } while (goesOn(pauses, lost));
    OutcomeUnknownException unknown = new OutcomeUnknownException(name.address, token, lost);
    if (Thread.currentThread().isInterrupted()) {
      // Spark knows by this class that a query was stopped, and has not failed.
      throw new Interrupted(unknown.getMessage(), unknown);
    }
    throw unknown;
  }

  private <T> T asked(String call, JsonObject said, Function<JsonObject, T> meaning) throws IOException, Refusal {
    return answered(request(call, said), true, meaning);
  }

  /** Sends a request, again where that can do no harm, and returns what the answer means. */
  private <T> T answered(Request request, boolean repeatable, Function<JsonObject, T> meaning)
      throws IOException, Refusal {
    Pauses pauses = pauses();
    Duration patience = repeatable ? settings.deadline.dividedBy(TRIES) : settings.deadline;
    int strangers = 0;
    while (true) {
      int number = current.get();
      URI address = address(number);
      boolean again = true;
      IOException failed;
      try {
        return read(sent(request.to(address), patience), address, meaning);
      } catch (Refusal refusal) {
        // While a secret is changed, some services know the new one and some do not.
        if (refusal.kind.equals(Refusal.SECRET) && ++strangers < settings.addresses.size()) {
          moveOn(number);
          continue;
        }
        if (!refusal.kind.equals(Refusal.BUSY)) {
          if (!refusal.isDecided()) {
            moveOn(number);
          }
          throw refusal;
        }
        failed = new Unreached(address + " " + refusal.getMessage(), refusal);
      } catch (ConnectException | HttpConnectTimeoutException unreached) {
        failed = new Unreached("the coordination service at " + address + " can't be reached", unreached);
      } catch (IOException lost) {
        boolean mistrusted = isMistrusted(lost);
        failed =
            mistrusted
                ? new Unreached("the coordination service at " + address + " is not trusted", lost)
                : new IOException("no answer from the coordination service at " + address, lost);
        again = repeatable && !mistrusted;
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new Interrupted("interrupted before " + address + " had answered", interrupted);
      }
      moveOn(number);
      if (!again || !goesOn(pauses, failed)) {
        throw failed;
      }
    }
  }

  /** Refuses to begin for a thread that is wanted elsewhere: what is sent is done, whoever waits for the answer. */
  private static void refuseInterrupted() throws Interrupted {
    if (Thread.currentThread().isInterrupted()) {
      throw new Interrupted("interrupted before anything was sent: nothing was done", null);
    }
  }

  /** Has another service be asked than one that has failed, unless somebody has done so. */
  private void moveOn(int number) {
    current.compareAndSet(number, number + 1);
  }

  private URI address(int number) {
    return settings.addresses.get(Math.floorMod(number, settings.addresses.size()));
  }

  /** Sends a request, and waits so long for all of the answer: the client's own time-out ends with its first bytes. */
  private static HttpResponse<String> sent(HttpRequest request, Duration patience)
      throws IOException, InterruptedException {
    Sender sender = Sender.to(request.uri(), System.nanoTime(), System.currentTimeMillis());
    CompletableFuture<HttpResponse<String>> answer = sender.sending(request);
    try {
      HttpResponse<String> response = answer.get(patience.toMillis(), TimeUnit.MILLISECONDS);
      sender.hears(request.uri(), null);
      return response;
    } catch (TimeoutException late) {
      sender.hears(request.uri(), late);
      throw (IOException) new HttpTimeoutException("no answer in " + patience.toMillis() + " ms").initCause(late);
    } catch (InterruptedException interrupted) {
      sender.hears(request.uri(), interrupted);
      throw interrupted;
    } catch (ExecutionException failed) {
      sender.hears(request.uri(), failed.getCause());
      if (failed.getCause() instanceof IOException) {
        throw (IOException) failed.getCause();
      }
      throw new IOException(failed.getCause());
    } finally {
      answer.cancel(true);
    }
  }

  /** Whether the service's certificate is none that this process trusts, or another host's: nothing was sent. */
  private static boolean isMistrusted(Throwable error) {
    for (Throwable each = error; each != null; each = each.getCause()) {
      if (each instanceof CertificateException) {
        return true;
      }
    }
    return false;
  }

  private Pauses pauses() {
    return new Pauses(settings.deadline.toNanos(), 2, LONGEST_PAUSE_MILLIS);
  }

  /** Pauses; false: there is no time left, or the thread is wanted elsewhere. */
  private static boolean goesOn(Pauses pauses, Exception why) {
    try {
      return pauses.goOn();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      why.addSuppressed(interrupted);
      return false;
    }
  }

  private static <T> T read(HttpResponse<String> response, URI address, Function<JsonObject, T> meaning)
      throws Refusal, IOException {
    Refusal refusal;
    try {
      JsonObject body = JsonParser.parseString(response.body()).getAsJsonObject();
      if (response.statusCode() == 200) {
        return meaning.apply(body);
      }
      String message = text(body, "message").orElse(response.body());
      refusal = new Refusal(text(body, "error").orElseThrow(), message, age(body));
    } catch (RuntimeException wrong) {
      // Each way not to be the answer is another exception of Gson's.
      String what = address + " answers " + response.statusCode() + " and nothing that was asked for";
      throw new IOException(what + ": is it the coordination service?", wrong);
    }
    throw refusal;
  }

  private Request request(String call, JsonObject said) {
    return request(call, BodyPublishers.ofString(said.toString()));
  }

  private Request request(String call, BodyPublisher body) {
    return address ->
        HttpRequest.newBuilder(address.resolve("/v1/" + call))
            .header("Authorization", "Bearer " + settings.secret)
            .header("putifabsent-session", settings.session)
            .header("putifabsent-writer", settings.writer)
            // Nobody waits for longer; but before Java 16 nothing else gives up a request that nobody waits for.
            .timeout(settings.deadline)
            .POST(body)
            .build();
  }

  private static JsonObject said(Name name) {
    JsonObject said = new JsonObject();
    said.addProperty("path", name.address);
    return said;
  }

  private static JsonObject said(Name table, String turn) {
    JsonObject said = said(table);
    said.addProperty("turn", turn);
    return said;
  }

  private static Optional<String> text(JsonObject answer, String field) {
    JsonElement value = answer.get(field);
    if (value == null || value.isJsonNull()) {
      return Optional.empty();
    }
    if (!value.getAsJsonPrimitive().isString()) {
      throw new IllegalStateException(field + " is no text");
    }
    return Optional.of(value.getAsString());
  }

  private static OptionalDouble age(JsonObject answer) {
    JsonElement holder = answer.get("holder");
    if (holder == null || holder.isJsonNull()) {
      return OptionalDouble.empty();
    }
    JsonElement age = holder.getAsJsonObject().get("age");
    return age == null || age.isJsonNull() ? OptionalDouble.empty() : OptionalDouble.of(age.getAsDouble());
  }

  /** Returns a truth value; Gson by itself takes each text for one. */
  private static boolean isTrue(JsonObject answer, String field) {
    JsonPrimitive value = answer.getAsJsonPrimitive(field);
    if (!value.isBoolean()) {
      throw new IllegalStateException(field + " is neither true nor false");
    }
    return value.getAsBoolean();
  }

  private static boolean isHeld(JsonObject answer) {
    JsonElement holder = answer.get("holder");
    return !holder.isJsonNull() && holder.getAsJsonObject().has("token");
  }

  private static String encoded(String value) {
    return URLEncoder.encode(value, StandardCharsets.UTF_8);
  }

  /** Nothing was done: the service was not reached, or did not begin. */
  private static final class Unreached extends ConnectException {
    private static final long serialVersionUID = 1L;

    Unreached(String message, Throwable cause) {
      super(message + " (" + cause.getMessage() + "); nothing was done");
      initCause(cause);
    }
  }

  /** The thread is wanted elsewhere. Spark knows it by its parent, which a time-out has as well. */
  static final class Interrupted extends InterruptedIOException {
    private static final long serialVersionUID = 1L;

    Interrupted(String message, Throwable cause) {
      super(message);
      initCause(cause);
    }
  }
}
