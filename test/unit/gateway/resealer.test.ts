import { SandboxKeys } from '../../../src/agent/keys.ts';
import { sealingUnder } from '../../../src/agent/sealing.ts';
import { Resealer, resealed } from '../../../src/gateway/resealer.ts';
import {
  settingsNameOf,
  type OwnerSettings,
  type OwnerSettingsSpec,
} from '../../../src/resources/owner-settings.ts';
import { recordingLogger } from '../../support/recording-logger.ts';
import { TestCache } from '../../support/test-cache.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const namespace = 'agents';
const oldKey = Buffer.alloc(32, 1);
const newKey = Buffer.alloc(32, 2);
const goneKey = Buffer.alloc(32, 3);

const specUnder = (key: Buffer, owner = 'alice'): OwnerSettingsSpec => {
  const sealing = sealingUnder(new SandboxKeys([key]));
  const secret = { scope: 'secret', owner, name: 'TOKEN' } as const;
  return {
    owner,
    secrets: [
      {
        name: 'TOKEN',
        description: 'For CI',
        sealed: sealing.seal('hunter2', secret),
        updatedTime: '2026-01-01T00:00:00Z',
      },
    ],
    mcpServers: [
      { name: 'plain', url: 'https://example.com' },
      {
        name: 'docs',
        url: 'https://example.com',
        sealed: sealing.seal('{"A":"1"}', { scope: 'mcp', owner, name: 'docs' }),
      },
    ],
  };
};

describe('resealed settings', () => {
  const sealing = sealingUnder(new SandboxKeys([newKey, oldKey]));

  it('have each text under the current master key, and all else as before', () => {
    const before = specUnder(oldKey);
    const after = resealed(before, sealing);
    const [secret] = after.secrets ?? [];
    const texts = [secret?.sealed ?? '', after.mcpServers?.[1]?.sealed ?? ''];
    expect(texts.map((text) => sealing.isCurrent(text))).toEqual([true, true]);
    expect(sealing.open(texts[0] ?? '', { scope: 'secret', owner: 'alice', name: 'TOKEN' })).toBe(
      'hunter2',
    );
    expect({ ...secret, sealed: '' }).toEqual({ ...before.secrets?.[0], sealed: '' });
    expect(after.mcpServers?.[0]).toEqual(before.mcpServers?.[0]);
  });

  it.each([
    ['with current texts', specUnder(newKey)],
    ['whose master key is gone', specUnder(goneKey)],
    ['without texts', { owner: 'alice' }],
    ['with the texts of another owner', { ...specUnder(oldKey), owner: 'bob' }],
  ])('are the same object: %s', (_sentence, spec) => {
    expect(resealed(spec, sealing)).toBe(spec);
  });
});

describe('a resealer', () => {
  const objectOf = (spec: OwnerSettingsSpec): OwnerSettings => ({
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'OwnerSettings',
    metadata: {
      name: settingsNameOf(spec.owner),
      namespace,
      uid: spec.owner,
      generation: 1,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec,
  });

  const scene = (...masterKeys: readonly Buffer[]) => {
    const keys = new SandboxKeys(masterKeys);
    const clock = new VirtualClock();
    const cache = new TestCache<OwnerSettings>();
    const changed: string[] = [];
    let failures = 0;
    const resealer = new Resealer({
      clock,
      keys,
      cache,
      namespace,
      sealing: sealingUnder(keys),
      logger: recordingLogger().logger,
      settings: {
        change: (owner, change) => {
          if (failures > 0) {
            failures -= 1;
            return Promise.reject(new Error('the API server is away'));
          }
          changed.push(owner);
          const stored = cache.store.get(namespace, settingsNameOf(owner))?.spec ?? { owner };
          const spec = change(stored);
          if (spec !== stored) cache.set(objectOf(spec));
          return Promise.resolve(spec);
        },
      },
    });
    resealer.open();
    const fail = (count: number) => (failures = count);
    return { keys, clock, cache, changed, resealer, fail };
  };

  it('writes settings of an earlier master key once, a minute after it has seen them', async () => {
    const { cache, clock, changed, resealer } = scene(newKey, oldKey);
    cache.set(objectOf(specUnder(oldKey)));
    cache.set(objectOf(specUnder(newKey, 'bob')));
    cache.set(objectOf(specUnder(goneKey, 'carol')));
    await clock.advance(59_000);
    expect(changed).toEqual([]);
    await clock.advance(600_000);
    expect(changed).toEqual(['alice']);
    resealer.close();
  });

  it('writes all settings one after the other when the master keys are replaced', async () => {
    const { cache, clock, changed, keys, resealer } = scene(oldKey);
    for (const owner of ['alice', 'bob', 'carol']) cache.set(objectOf(specUnder(oldKey, owner)));
    await clock.advance(600_000);
    expect(changed).toEqual([]);
    keys.replace([newKey, oldKey]);
    await clock.advance(60_000);
    expect(changed).toEqual(['alice']);
    await clock.advance(100);
    expect(changed).toEqual(['alice', 'bob', 'carol']);
    resealer.close();
  });

  it('tries again after a failure, and writes nothing once it is closed', async () => {
    const { cache, clock, changed, keys, resealer, fail } = scene(newKey, oldKey);
    fail(2);
    cache.set(objectOf(specUnder(oldKey)));
    await clock.advance(90_000);
    expect(changed).toEqual([]);
    await clock.advance(60_000);
    expect(changed).toEqual(['alice']);
    resealer.close();
    keys.replace([goneKey, newKey]);
    await clock.advance(600_000);
    expect(changed).toEqual(['alice']);
  });
});
