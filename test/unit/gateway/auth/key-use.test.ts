import { gatewayIndexers } from '../../../../src/gateway/lookup/cache.ts';
import { issueKey } from '../../../../src/gateway/auth/key.ts';
import { KeyUse } from '../../../../src/gateway/auth/key-use.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { ApiError } from '@conversation-operator/kube/errors';
import { Reflector } from '@conversation-operator/kube/reflector';
import { silentLogger } from '@conversation-operator/base/logger';
import { apiKeys } from '../../../../src/resources/api-key.ts';
import { eventually } from '../../../support/eventually.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { recordingLogger } from '../../../support/recording-logger.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const minuteMs = 60_000;
const namespace = 'agents';

describe('the last use of a key', () => {
  let client: FakeKubeClient;
  let cache: ReturnType<typeof cacheOf>;
  let clock: VirtualClock;
  let name: string;
  let log: ReturnType<typeof recordingLogger>;
  const replicas: KeyUse[] = [];
  const calls: string[] = [];

  const cacheOf = () =>
    new Reflector({
      client,
      resource: apiKeys,
      namespace,
      indexers: gatewayIndexers.apiKeys,
      clock: systemClock,
      random: Math.random,
      logger: silentLogger,
    });
  const replica = () => {
    const use = new KeyUse({ client, cache, namespace, clock, logger: log.logger });
    use.start();
    replicas.push(use);
    return use;
  };
  const stored = async () => (await client.get(apiKeys, namespace, name)).status?.lastUsedTime;
  /** Minutes pass, and the cache has seen what they have brought. */
  const pass = async (minutes: number) => {
    await clock.advance(minutes * minuteMs);
    const { resourceVersion } = (await client.get(apiKeys, namespace, name)).metadata;
    await eventually(
      'the cache to follow',
      () => cache.store.get(namespace, name)?.metadata.resourceVersion === resourceVersion,
    );
  };

  beforeEach(async () => {
    client = new FakeKubeClient();
    clock = new VirtualClock();
    log = recordingLogger();
    name = (await issueKey({ client, namespace, owner: 'alice' })).resource.metadata.name;
    cache = cacheOf();
    cache.start();
    await cache.synced();
    calls.length = 0;
    client.fault = ({ verb }) => {
      if (verb === 'patch') calls.push(verb);
      return undefined;
    };
  });
  afterEach(async () => {
    await Promise.all(replicas.splice(0).map((use) => use.stop()));
    expect(clock.timers).toBe(0);
    await cache.stop();
  });

  it('is stored a minute later, however often it was used', async () => {
    const use = replica();
    const at = new Date(clock.now() + minuteMs).toISOString();
    for (let times = 0; times < 100; times++) use.seen(name);
    expect(await stored()).toBeUndefined();
    await pass(1);
    expect([await stored(), calls]).toEqual([at, ['patch']]);
  });

  it('is stored also for a key that is used while others are written', async () => {
    const use = replica();
    const other = (await issueKey({ client, namespace, owner: 'bob' })).resource.metadata.name;
    await eventually('the cache to follow', () => cache.store.get(namespace, other) !== undefined);
    client.fault = ({ verb }) => {
      if (verb === 'patch') use.seen(other);
      return undefined;
    };
    use.seen(name);
    await pass(2);
    const used = await client.get(apiKeys, namespace, other);
    expect(used.status?.lastUsedTime).toBeDefined();
  });

  it('is written once an hour at most, on all replicas together', async () => {
    const [one, other] = [replica(), replica()];
    for (let minutes = 0; minutes < 180; minutes++) {
      (minutes % 2 === 0 ? one : other).seen(name);
      await pass(1);
    }
    expect(calls).toHaveLength(3);
  });

  it('is no reason to write when the key is unused, nor when it is gone', async () => {
    const use = replica();
    await pass(120);
    use.seen('key-none');
    await pass(1);
    expect(calls).toEqual([]);
  });

  it('is left out for an hour, with one line in the log, where it may not be written', async () => {
    const use = replica();
    client.fault = ({ verb }) =>
      verb === 'patch'
        ? new ApiError(403, { code: 403, reason: 'Forbidden', message: 'no' })
        : undefined;
    for (let minutes = 0; minutes < 30; minutes++) {
      use.seen(name);
      await pass(1);
    }
    expect(log.lines.map(({ level, message }) => [level, message])).toEqual([
      ['warn', 'The use of API keys is not recorded'],
    ]);
  });
});
