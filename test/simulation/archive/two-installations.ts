import { memoryStore } from '../../support/archive/memory-store.ts';
import { Random } from '../random.ts';
import { Trace } from '../trace.ts';
import { Findings } from './findings.ts';
import { IoScheduler } from './io-scheduler.ts';
import { World } from './world.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
/** Time after which everything that was ever an orphan has been one for a day. */
const sweepsMs = 27 * hourMs;
/** Conversations of each installation, so that two new ones are less than a tenth of them. */
const placesEach = 24;
const backupMinute = 15;
const restoreMinute = 30;

/**
 * Two installations with one master key, one store and one namespace name run side by side for an
 * hour. One cluster is restored in the middle from a backup that is a quarter of an hour old; then
 * both rest for a day. Throws the first promise that does not hold: an operator touches an archive
 * of the other installation, or a conversation loses what was archived.
 *
 * @param maxOrphanShare 1: no share of orphans stops a sweep, so that nothing but the name of the
 * installation saves the archives of the other one. Undefined: the default.
 */
export async function runTwoInstallations(seed: number, maxOrphanShare?: number): Promise<void> {
  const random = new Random(`two installations ${seed}`);
  const scheduler = new IoScheduler();
  const trace = new Trace(scheduler, 0);
  const findings = new Findings();
  const { store } = memoryStore();
  const worlds: readonly World[] = ['a', 'b'].map(
    (prefix, index) =>
      new World({
        scheduler,
        trace,
        findings,
        store,
        prefix,
        random: random.fork(prefix),
        namespaceUid: `namespace-${prefix}`,
        isPlain: true,
        onExpired: () => undefined,
        onListed: () => undefined,
        onWrite: (keys) => worlds[1 - index]?.checks.onWriteElsewhere(keys),
        ...(maxOrphanShare === undefined ? {} : { maxOrphanShare }),
      }),
  );
  const [restored] = worlds;

  const pass = async (ms: number): Promise<void> => {
    const end = scheduler.monotonic() + ms;
    while (await scheduler.step(end)) findings.check();
    findings.check();
  };
  const act = async (work: () => Promise<unknown>): Promise<void> => {
    const state = { isDone: false };
    scheduler.after(0, () => {
      work()
        .catch((error: unknown) => findings.fail(error))
        .finally(() => {
          state.isDone = true;
        });
    });
    while (!state.isDone && (await scheduler.step(scheduler.monotonic() + hourMs)))
      findings.check();
  };

  for (const world of worlds) {
    await act(() => world.begin());
    while (world.places.length < placesEach) await act(() => world.addPlace());
    world.startOperator().lagMs = 200;
  }
  let backup: Awaited<ReturnType<World['backup']>> = [];
  for (let minute = 0; minute < 60; minute++) {
    for (const world of worlds)
      for (let count = 0; count < 3; count++) {
        const member = random.pick(world.living);
        if (member?.place.phase === 'running') world.write(member, random.whole(1, 30));
      }
    for (const world of worlds) {
      const place = random.pick(world.places);
      const [operator] = world.operators;
      if (operator === undefined) throw new Error('each installation has an operator');
      if (place?.phase === 'paused') await act(() => world.resume(place));
      else if (place !== undefined) await act(() => world.pause(place, operator, 15_000));
    }
    if (minute === backupMinute)
      await act(async () => {
        backup = (await restored?.backup()) ?? [];
      });
    // Later than the backup: the archive of this conversation becomes an orphan.
    if (minute === backupMinute + 1) for (const world of worlds) await act(() => world.addPlace());
    if (minute === restoreMinute && restored !== undefined) {
      for (const operator of restored.operators) restored.kill(operator);
      // Volumes lose more than the archives have, so that no archive can begin anew.
      for (const { agent } of restored.living)
        if (random.chance(0.5)) agent.lose(random.whole(1, 60));
      await act(() => restored.restore(backup));
      restored.startOperator().lagMs = 200;
    }
    await pass(minuteMs);
  }
  for (const world of worlds)
    for (const place of world.places) {
      const [operator] = world.operators;
      if (operator === undefined || place.phase !== 'running') continue;
      await act(() => world.pause(place, operator, 15_000));
    }
  await pass(sweepsMs);
  for (const world of worlds)
    for (const { uid } of world.living) await act(() => world.checks.checkHeads(uid));
  for (const world of worlds) await act(() => world.checks.checkRemains());
  findings.check();
  for (const world of worlds) for (const { machine } of world.operators) machine.crash();
  scheduler.end();
}
