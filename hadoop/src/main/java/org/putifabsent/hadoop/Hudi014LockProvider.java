package org.putifabsent.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.client.transaction.lock.InProcessLockProvider;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.common.lock.LockProvider;
import org.apache.hudi.common.util.ReflectionUtils;

/** The lock of Hudi 0.14, which has no {@code StorageConfiguration}: {@code hoodie.write.lock.provider}. */
public final class Hudi014LockProvider extends HudiLock {

  private static final Class<?>[] TAKES = {LockConfiguration.class, Configuration.class};

  /** Is called by reflection. */
  public Hudi014LockProvider(LockConfiguration lock, Configuration conf) {
    super(lock, conf, () -> hudis(lock, conf));
  }

  // It is compiled with a later Hudi, whose lock takes something else.
  private static LockProvider<?> hudis(LockConfiguration lock, Configuration conf) {
    return (LockProvider<?>) ReflectionUtils.loadClass(InProcessLockProvider.class.getName(), TAKES, lock, conf);
  }
}
