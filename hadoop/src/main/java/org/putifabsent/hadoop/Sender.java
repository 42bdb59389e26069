package org.putifabsent.hadoop;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicReference;

/**
 * A client, and since when each of its connections has been idle.
 *
 * <p>One that failed is not used again: the network may have forgotten its connections, or it is dead. Nor is one that
 * would use a connection that may be forgotten. Otherwise it is used on, for it has a thread until a collection of old
 * objects, of which a busy process may have none for days.
 */
final class Sender {

  /** Networks forget a connection that was idle for four minutes or longer, and say so to nobody. */
  private static final Duration LONGEST_IDLE = Duration.ofMinutes(3);

  private static final AtomicReference<Sender> USED = new AtomicReference<>(new Sender());

  private final HttpClient client =
      HttpClient.newBuilder()
          .version(HttpClient.Version.HTTP_1_1)
          .connectTimeout(Duration.ofSeconds(5))
          .proxy(HttpClient.Builder.NO_PROXY)
          .build();

  /** By service. The client uses the one first that has been idle for longest. */
  private final Map<String, Queue<Elapsed>> idle = new ConcurrentHashMap<>();

  /** Returns what sends to a service now: a creation is sent once, and must not go where nobody hears it any more. */
  static Sender to(URI service, long nanos, long millis) {
    while (true) {
      Sender used = USED.get();
      Queue<Elapsed> idle = used.idleTo(service);
      Elapsed longest = idle.peek();
      if (longest == null || longest.at(nanos, millis).compareTo(LONGEST_IDLE) <= 0) {
        idle.poll();
        return used;
      }
      used.retire();
    }
  }

  /** Has another one be used: one, however many hear at once that this one is of no use. */
  private void retire() {
    synchronized (USED) {
      if (USED.get() == this) {
        USED.set(new Sender());
      }
    }
  }

  private Queue<Elapsed> idleTo(URI service) {
    return idle.computeIfAbsent(service.getAuthority(), any -> new ConcurrentLinkedQueue<>());
  }

  CompletableFuture<HttpResponse<String>> sending(HttpRequest request) {
    try {
      return client.sendAsync(request, BodyHandlers.ofString());
    } catch (RejectedExecutionException dead) {
      return CompletableFuture.failedFuture(new IOException("the client is dead", dead));
    }
  }

  /** Hears that a request is over, and the error if there is no answer. */
  void hears(URI service, Throwable error) {
    Throwable cause = error instanceof CompletionException ? error.getCause() : error;
    if (cause == null) {
      idleTo(service).add(new Elapsed());
    } else if (!(cause instanceof ConnectException)) {
      // Where nobody listens, nothing is wrong with the client.
      retire();
    }
  }
}
