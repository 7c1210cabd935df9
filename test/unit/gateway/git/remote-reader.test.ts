import { silentLogger } from '@conversation-operator/base/logger';
import { directly } from '@conversation-operator/outward/outward';
import { RemoteReader } from '../../../../src/gateway/git/remote-reader.ts';
import { startJsonHost } from '../../../support/json-host.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

it('a read of a git host counts for the hour of its owner, unless its result is known', async () => {
  const host = await startJsonHost(() => ({ status: 404 }));
  const clock = new VirtualClock();
  await clock.advance(1);
  const reader = new RemoteReader({
    outward: directly,
    providers: ['forgejo'],
    timeoutMs: 10_000,
    budget: { perOwner: 2 },
    clock,
    logger: silentLogger,
  });
  const read = (owner: string, repository: string) =>
    reader.read({
      owner,
      repository,
      credential: undefined,
      wantsRefs: false,
      host: { provider: 'forgejo', url: new URL(host.url) },
    });
  try {
    for (const repository of ['a/1', 'a/1', 'a/2'])
      expect(await read('mallory', repository)).toMatchObject({ access: 'denied' });
    expect(await read('mallory', 'a/3')).toEqual({
      access: 'unknown',
      reason: 'too many questions',
    });
    expect(host.calls).toHaveLength(2);
    expect(await read('alice', 'a/3')).toMatchObject({ access: 'denied' });
    await clock.advance(3_600_000);
    expect(await read('mallory', 'a/3')).toMatchObject({ access: 'denied' });
  } finally {
    await reader.close();
    await host.close();
  }
});
