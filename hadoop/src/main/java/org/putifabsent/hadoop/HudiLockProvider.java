package org.putifabsent.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.client.transaction.lock.InProcessLockProvider;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.storage.StorageConfiguration;

/** The lock of Hudi since 0.15: {@code hoodie.write.lock.provider}. */
public final class HudiLockProvider extends HudiLock {

  /** Is called by reflection. */
  public HudiLockProvider(LockConfiguration lock, StorageConfiguration<?> storage) {
    super(lock, storage.unwrapAs(Configuration.class), () -> new InProcessLockProvider(lock, storage));
  }
}
