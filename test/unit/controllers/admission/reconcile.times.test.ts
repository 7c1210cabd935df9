import { findCondition } from '../../../../src/resources/conditions.ts';
import { AdmissionScene } from '../../../support/admission-scene.ts';
import { aConversation, aQuota, aTemplate, condition } from '../../../support/builders.ts';

const hour = 3_600_000;

let scene: AdmissionScene;
beforeEach(() => {
  scene = new AdmissionScene();
});
afterEach(() => scene.stop());

const isoIn = (ms: number) => new Date(scene.clock.now() + ms).toISOString();
const admittedSince = (time: string) => ({
  ...condition('Admitted', 'True', 'Admitted', time),
  observedGeneration: 1,
});
const pausedByQuota = {
  replicas: 0 as const,
  conditions: [{ ...condition('Admitted', 'False', 'Quota'), observedGeneration: 1 }],
};
const runningFor = (ms: number) => {
  const since = isoIn(-ms);
  return {
    replicas: 1 as const,
    activeSinceTime: since,
    lastContainerID: 'c',
    conditions: [admittedSince(since), condition('Ready', 'True', 'Running', since)],
  };
};
const reasonOf = async (name: string) =>
  findCondition((await scene.stored(name)).status?.conditions, 'Admitted')?.reason;
const countAdmitted = async (names: readonly string[]) => {
  const reasons = await Promise.all(names.map(reasonOf));
  return reasons.filter((reason) => reason === 'Admitted').length;
};

describe('a quota that is deleted and created again', () => {
  const names = Array.from({ length: 60 }, (_, index) => `sbx-${String(index).padStart(2, '0')}`);

  it('lets nothing come back in between, however long that takes within a minute', async () => {
    const quota = await scene.addQuota(aQuota('everyone', { limit: 2 }));
    for (const name of names) await scene.addSandbox(name, { status: pausedByQuota });
    await scene.clock.advance(5_000);
    expect(await countAdmitted(names)).toBe(2);
    await scene.deleteQuota(quota);
    await scene.clock.advance(50_000);
    expect(await countAdmitted(names)).toBe(2);
    await scene.addQuota(quota);
    await scene.clock.advance(hour);
    expect(await countAdmitted(names)).toBe(2);
  });

  it('lets those come back in the end whom no quota limits any more, at a bounded rate', async () => {
    const quota = await scene.addQuota(aQuota('everyone', { limit: 2 }));
    for (const name of names) await scene.addSandbox(name, { status: pausedByQuota });
    await scene.clock.advance(0);
    await scene.deleteQuota(quota);
    await scene.clock.advance(60_000);
    expect(await countAdmitted(names)).toBe(12);
    await scene.clock.advance(10_000);
    expect(await countAdmitted(names)).toBe(22);
    await scene.clock.advance(60_000);
    expect(await countAdmitted(names)).toBe(60);
  });

  it('keeps those waiting who wait, as long as that takes a moment', async () => {
    const quota = await scene.addQuota(aQuota('everyone', { limit: 2, onExceeded: 'Queue' }));
    for (const name of names) await scene.addSandbox(name);
    await scene.clock.advance(0);
    await scene.deleteQuota(quota);
    await scene.clock.advance(4_000);
    expect(await countAdmitted(names)).toBe(2);
    await scene.addQuota(quota);
    await scene.clock.advance(hour);
    expect(await countAdmitted(names)).toBe(2);
  });

  it('lets all newcomers in once it is clear that none takes its place', async () => {
    const quota = await scene.addQuota(aQuota('everyone', { limit: 2, onExceeded: 'Queue' }));
    for (const name of names) await scene.addSandbox(name);
    await scene.clock.advance(0);
    await scene.deleteQuota(quota);
    await scene.clock.advance(5_000);
    expect(await countAdmitted(names)).toBe(60);
  });

  it('evicts and refuses no sandbox once it is gone', async () => {
    for (const onExceeded of ['PauseOldest', 'Reject'] as const) {
      const quota = await scene.addQuota(
        aQuota(`by-${onExceeded.toLowerCase()}`, { limit: 1, onExceeded }),
      );
      await scene.addSandbox(`old-${onExceeded.toLowerCase()}`, {
        owner: onExceeded,
        status: runningFor(60_000),
      });
      await scene.clock.advance(0);
      await scene.deleteQuota(quota);
      await scene.addSandbox(`new-${onExceeded.toLowerCase()}`, { owner: onExceeded });
      await scene.clock.advance(1_000);
      expect(await reasonOf(`old-${onExceeded.toLowerCase()}`)).toBe('Admitted');
      expect(await reasonOf(`new-${onExceeded.toLowerCase()}`)).toBe('WaitingForQuota');
      await scene.clock.advance(4_000);
      expect(await reasonOf(`new-${onExceeded.toLowerCase()}`)).toBe('Admitted');
    }
  });

  it('gives way at once to another one for the same, whatever its name', async () => {
    const quota = await scene.addQuota(aQuota('everyone', { limit: 2, onExceeded: 'Queue' }));
    for (const name of names) await scene.addSandbox(name);
    await scene.clock.advance(0);
    await scene.deleteQuota(quota);
    await scene.addQuota(aQuota('all', { limit: 10, onExceeded: 'Queue' }));
    await scene.clock.advance(0);
    expect(await countAdmitted(names)).toBe(10);
  });
});

describe('a sandbox that is idle', () => {
  const started = { status: 'READY' as const, transitions: [] };
  const idleIn = (name: string, sandboxUID: string, agentEpoch: number) =>
    aConversation({
      name,
      status: {
        start: started,
        executionStatus: 'finished',
        sandboxName: 'sbx-1',
        sandboxUID,
        agentEpoch,
      },
    });

  it.each<[string, string | undefined, string]>([
    ['is paused, whatever is left of an earlier sandbox of its name', 'uid-of-an-earlier', 'Idle'],
    ['is kept for a conversation whose agent was not polled yet', undefined, 'Admitted'],
  ])('%s', async (_sentence, earlierUid, reason) => {
    scene.stores.templates.set(aTemplate({ idleTimeout: '30m' }));
    const { metadata } = await scene.addSandbox('sbx-1', {
      status: { ...runningFor(0), agentEpoch: 2 },
    });
    scene.showConversation(idleIn('polled', metadata.uid, 2));
    scene.showConversation(idleIn('joined', earlierUid ?? metadata.uid, 1));
    await scene.clock.advance(hour);
    expect(await reasonOf('sbx-1')).toBe(reason);
  });
});

describe.each([24 * hour, -24 * hour])('a wall clock that jumps by %d ms', (jumpMs) => {
  const limits = { idleTimeout: '30m', maxActiveTime: '8h' };

  it('expires nothing, and what it expires later is as old as it should be', async () => {
    scene.stores.templates.set(aTemplate(limits));
    await scene.addSandbox('old', { status: runningFor(20 * 60_000) });
    await scene.clock.advance(0);
    scene.clock.jumpWallClock(jumpMs);
    await scene.addSandbox('new', { status: runningFor(0) });
    await scene.clock.advance(9 * 60_000);
    expect([await reasonOf('old'), await reasonOf('new')]).toEqual(['Admitted', 'Admitted']);
    await scene.clock.advance(2 * 60_000);
    expect([await reasonOf('old'), await reasonOf('new')]).toEqual(['Idle', 'Admitted']);
    await scene.clock.advance(20 * 60_000);
    expect(await reasonOf('new')).toBe('Idle');
  });

  it('ripens nothing that a newcomer could have paused', async () => {
    await scene.addQuota(aQuota('everyone', { limit: 2, minActiveSeconds: 600 }));
    await scene.addSandbox('old', { status: runningFor(300_000) });
    await scene.clock.advance(0);
    scene.clock.jumpWallClock(jumpMs);
    await scene.addSandbox('young', { status: runningFor(0) });
    await scene.addSandbox('newcomer');
    await scene.clock.advance(290_000);
    expect([await reasonOf('old'), await reasonOf('young')]).toEqual(['Admitted', 'Admitted']);
    await scene.clock.advance(20_000);
    expect([await reasonOf('old'), await reasonOf('young')]).toEqual(['Quota', 'Admitted']);
  });
});
