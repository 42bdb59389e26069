package org.putifabsent.hadoop;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.Closeable;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** A fake: stands before a real service, and loses requests and answers as it is told. */
final class LiarService implements Closeable {

  /** What becomes of a call. */
  enum Fate {
    /** It is answered. */
    ANSWERED,
    /** It is done, and its answer lost. */
    ANSWER_LOST,
    /** It is not done, and nobody says so. */
    REQUEST_LOST,
    /** It is not done: come again. */
    BUSY,
    /** It is not done: this service has another secret. */
    ANOTHER_SECRET,
    /** It is done, and the answer is that nobody knows. */
    UNKNOWN,
    /** It is done, and a proxy answers something of its own. */
    PROXY_ERROR,
    /** The same, in the words that the service has for other things. */
    PROXY_OBJECT,
    /** It is done, and the answer is another program's, which says that all is well. */
    ANOTHERS,
    /** It is not done: the store has not answered in time. */
    SLOW,
    /** It is not done, and the connection stays: the network has forgotten it. */
    FORGOTTEN,
    /** It is done, and the answer comes but for its end. */
    STALLED,
    /** It is answered, with a holder that has had the name for an hour. */
    OLD_HOLDER,
    /** It is answered, and that nobody else has written to the table for long. */
    ALONE,
    /** It is done, and the store does not show it yet. */
    UNSHOWN
  }

  private static final String UNKNOWN = "{\"error\": \"unknown\", \"message\": \"it is unknown\", \"token\": \"t\"}";
  private static final String SLOW = "{\"error\": \"slow\", \"message\": \"the store is slow\"}";
  private static final String BUSY = "{\"error\": \"busy\", \"message\": \"nothing was done\"}";

  private static final String SECRET = "{\"error\": \"secret\", \"message\": \"the secret is missing or wrong\"}";

  /** The calls that came, in order. */
  final List<String> calls = new CopyOnWriteArrayList<>();

  /** What they said, in order. */
  final List<String> bodies = new CopyOnWriteArrayList<>();

  final String address;
  private final URI real;
  private final Map<String, Fate> once = new ConcurrentHashMap<>();
  private final Map<String, Fate> always = new ConcurrentHashMap<>();
  private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final HttpServer server;
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final CountDownLatch closed = new CountDownLatch(1);

  LiarService(String real) throws IOException {
    this.real = URI.create(real);
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.createContext("/", this::handle);
    server.setExecutor(threads);
    server.start();
    address = "http://127.0.0.1:" + server.getAddress().getPort();
  }

  /** Says what becomes of the next call of this name. */
  void next(String call, Fate fate) {
    once.put(call, fate);
  }

  /** Says what becomes of all calls of this name that nothing else was said of. */
  void always(String call, Fate fate) {
    always.put(call, fate);
  }

  private void handle(HttpExchange exchange) throws IOException {
    String call = exchange.getRequestURI().getPath().replace("/v1/", "");
    calls.add(call);
    Fate fate = once.remove(call);
    if (fate == null) {
      fate = always.getOrDefault(call, Fate.ANSWERED);
    }
    byte[] body = exchange.getRequestBody().readAllBytes();
    bodies.add(new String(body, StandardCharsets.UTF_8));
    try {
      if (fate == Fate.FORGOTTEN) {
        closed.await();
      } else if (fate == Fate.BUSY) {
        say(exchange, 503, BUSY);
      } else if (fate == Fate.ANOTHER_SECRET) {
        say(exchange, 401, SECRET);
      } else if (fate == Fate.SLOW) {
        say(exchange, 503, SLOW);
      } else if (fate != Fate.REQUEST_LOST) {
        HttpResponse<String> answer = forward(exchange, body);
        if (fate == Fate.ANSWERED) {
          say(exchange, answer.statusCode(), answer.body());
        } else if (fate == Fate.OLD_HOLDER) {
          say(exchange, answer.statusCode(), answer.body().replaceAll("\"age\": [^,}]+", "\"age\": 3600.0"));
        } else if (fate == Fate.ALONE) {
          say(exchange, answer.statusCode(), answer.body().replace("\"alone\": false", "\"alone\": true"));
        } else if (fate == Fate.UNSHOWN) {
          say(exchange, answer.statusCode(), answer.body().replaceFirst("}$", ", \"shown\": false}"));
        } else if (fate == Fate.UNKNOWN) {
          say(exchange, 504, UNKNOWN);
        } else if (fate == Fate.PROXY_ERROR) {
          say(exchange, 502, "{\"message\": \"bad gateway\"}");
        } else if (fate == Fate.PROXY_OBJECT) {
          say(exchange, 503, "{\"error\": {\"code\": 503}}");
        } else if (fate == Fate.ANOTHERS) {
          say(exchange, 200, "{\"status\": \"ok\", \"guarded\": \"yes\", \"holder\": \"nobody\"}");
        } else if (fate == Fate.STALLED) {
          exchange.sendResponseHeaders(200, answer.body().length());
          exchange.getResponseBody().write('{');
          exchange.getResponseBody().flush();
          closed.await();
        }
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    } finally {
      exchange.close();
    }
  }

  private HttpResponse<String> forward(HttpExchange exchange, byte[] body) throws IOException, InterruptedException {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(real.resolve(exchange.getRequestURI().toString())).POST(BodyPublishers.ofByteArray(body));
    for (String header : List.of("Authorization", "putifabsent-session", "putifabsent-writer")) {
      request.header(header, exchange.getRequestHeaders().getFirst(header));
    }
    return http.send(request.build(), BodyHandlers.ofString());
  }

  private static void say(HttpExchange exchange, int status, String text) throws IOException {
    byte[] body = text.getBytes(StandardCharsets.UTF_8);
    exchange.sendResponseHeaders(status, body.length);
    try (OutputStream out = exchange.getResponseBody()) {
      out.write(body);
    }
  }

  @Override
  public void close() {
    closed.countDown();
    server.stop(0);
    threads.shutdownNow();
  }
}
