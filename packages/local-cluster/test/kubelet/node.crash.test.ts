import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pods, type Pod } from '@conversation-operator/kube/core';
import { eventually } from '../../../../test/support/eventually.ts';
import {
  Machine,
  addressOf,
  ask,
  firstStatus,
  isAlive,
  podOf,
  processesWith,
  quickProbe,
} from './processes/machine.ts';

/** Kills the process of a node once its pod is as expected; returns what the API server knows. */
async function crashedHost(
  dataDir: string,
  pod: Pod,
  until: (pod: Pod) => Promise<boolean> | boolean,
): Promise<Pod> {
  const host = spawn(
    process.execPath,
    [join(import.meta.dirname, 'processes/host.ts'), dataDir, JSON.stringify(pod)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const ended = once(host, 'exit');
  // The process would outlive a test that times out.
  const late = setTimeout(() => host.kill('SIGKILL'), 150_000);
  try {
    for await (const line of createInterface({ input: host.stdout })) {
      const present = JSON.parse(line) as Pod;
      if (await until(present)) return present;
    }
    throw new Error('the host has ended by itself');
  } finally {
    clearTimeout(late);
    host.kill('SIGKILL');
    await ended;
  }
}

const stored = (pod: ReturnType<typeof podOf>, uid: string): Pod => ({
  ...pod,
  metadata: {
    namespace: 'default',
    name: 'web',
    uid,
    resourceVersion: '1',
    creationTimestamp: '2030-01-01T00:00:00Z',
  },
  status: {},
});

const isReady = (pod: Pod): boolean => firstStatus(pod)?.ready === true;

describe('a node whose process was killed', () => {
  let machine: Machine;

  beforeEach(async () => {
    machine = new Machine(await mkdtemp(join(tmpdir(), 'local-kubelet-')), { stopGraceMs: 1000 });
  });

  afterEach(() => machine.close());

  it('runs its pods again at the next start: same pod, same address, another container', async () => {
    const before = await crashedHost(
      machine.dataDir,
      stored(podOf('web', { readinessProbe: quickProbe }), 'uid-1'),
      isReady,
    );
    const oldPid = Number(await ask(addressOf(before)));
    expect(await isAlive(oldPid)).toBe(true);
    machine.client.put(pods, before);
    await machine.node.start();
    expect(await isAlive(oldPid)).toBe(false);
    const after = await machine.until(
      'web',
      'ready again',
      ({ ready, restartCount }) => ready && restartCount === 1,
    );
    expect(addressOf(after)).toBe(addressOf(before));
    expect(firstStatus(after)?.containerID).not.toBe(firstStatus(before)?.containerID);
    expect(firstStatus(after)?.lastState?.terminated).toMatchObject({
      exitCode: 137,
      containerID: firstStatus(before)?.containerID,
    });
  });

  it('leaves no orphan after the next start', async () => {
    // The shell that is the container's first process ends with the node: its output has nowhere to
    // go.
    const script = 'setsid sleep 71 & sleep 72 & while echo alive; do sleep 0.05; done';
    const pod = stored(podOf('web', { image: 'shell', args: [script] }), `uid-${process.pid}`);
    const orphans = () => processesWith(pod.metadata.uid);
    await crashedHost(machine.dataDir, pod, async (present) => {
      return (
        isReady(present) && eventually('its processes', async () => (await orphans()).length >= 3)
      );
    });
    await eventually('only orphans to be left', async () => (await orphans()).length === 2);
    await machine.node.start();
    expect(await orphans()).toEqual([]);
  });

  it('removes the folders of pods and claims that went in the meantime', async () => {
    await crashedHost(machine.dataDir, stored(podOf('web', {}), 'uid-1'), isReady);
    await machine.node.start();
    await eventually(
      'the folder to be gone',
      async () => (await readdir(join(machine.dataDir, 'pods'))).length === 0,
    );
  });
});
