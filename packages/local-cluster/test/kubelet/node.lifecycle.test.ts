import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
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
  sleepers,
} from './processes/machine.ts';

const shell = (script: string) => ({ image: 'shell', args: [script] });

describe('pods as processes', () => {
  let machine: Machine;

  beforeAll(async () => {
    machine = await Machine.start({ backOff: { initialMs: 300, maxMs: 1000 }, stopGraceMs: 1000 });
  });

  afterAll(() => machine.close());

  it('are ready when they answer, each on its own address', async () => {
    await Promise.all(
      ['one', 'two'].map((name) => machine.create(podOf(name, { readinessProbe: quickProbe }))),
    );
    const [one, two] = await Promise.all([machine.ready('one'), machine.ready('two')]);
    expect(addressOf(one)).not.toBe(addressOf(two));
    expect(await ask(addressOf(one))).not.toBe(await ask(addressOf(two)));
    expect(one.status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'Ready', status: 'True' }),
    );
  });

  it('are not ready until they answer', async () => {
    await machine.create(
      podOf('silent', {
        ...shell('sleep 60'),
        readinessProbe: { tcpSocket: { port: 8000 }, periodSeconds: 1 },
      }),
    );
    const pod = await machine.until(
      'silent',
      'running',
      ({ state }) => state?.running !== undefined,
    );
    expect(firstStatus(pod)?.ready).toBe(false);
  });

  it('are restarted after a crash with a new container id, and keep their address', async () => {
    await machine.create(podOf('crashing', { readinessProbe: quickProbe }));
    const before = await machine.ready('crashing');
    await ask(addressOf(before), '/crash').catch(() => undefined);
    const after = await machine.until(
      'crashing',
      'restarted',
      ({ ready, restartCount }) => ready && restartCount === 1,
    );
    expect(firstStatus(after)?.containerID).not.toBe(firstStatus(before)?.containerID);
    expect(firstStatus(after)?.lastState?.terminated).toMatchObject({
      exitCode: 3,
      containerID: firstStatus(before)?.containerID,
    });
    expect(addressOf(after)).toBe(addressOf(before));
  });

  it('that keep crashing wait longer and longer', async () => {
    await machine.create(podOf('looping', shell('exit 1')));
    await machine.until(
      'looping',
      'in a crash loop',
      ({ state, restartCount }) =>
        state?.waiting?.reason === 'CrashLoopBackOff' && restartCount >= 2,
    );
  });

  it('are restarted when their liveness probe fails', async () => {
    const livenessProbe = {
      httpGet: { port: 8000 },
      periodSeconds: 1,
      failureThreshold: 1,
      terminationGracePeriodSeconds: 1,
    };
    await machine.create(podOf('ailing', { ...shell('sleep 60'), livenessProbe }));
    const pod = await machine.until('ailing', 'restarted', ({ restartCount }) => restartCount > 0);
    expect(firstStatus(pod)?.lastState?.terminated?.exitCode).toBe(143);
  });

  it('run their init containers first, and end as succeeded', async () => {
    const volumeMounts = [{ name: 'shared', mountPath: '/shared' }];
    const pod = podOf(
      'job',
      { ...shell('cat message; exit 0'), workingDir: '/shared', volumeMounts },
      {
        restartPolicy: 'Never',
        volumes: [{ name: 'shared', emptyDir: {} }],
        initContainers: [
          {
            name: 'first',
            image: 'shell',
            args: ['echo prepared > "$TARGET"'],
            env: [{ name: 'TARGET', value: '/shared/message' }],
            volumeMounts,
          },
        ],
      },
    );
    await machine.create(pod);
    const done = await machine.until(
      'job',
      'over',
      (_status, { status }) => status?.phase === 'Succeeded',
    );
    expect(await machine.log(done)).toBe('prepared\n');
  });

  it('take with them what they have started when they are deleted', async () => {
    const seconds = `62.${process.pid}`;
    const escape = `setsid sleep 61 & env -i sleep ${seconds} & sleep 63`;
    const pod = await machine.create(
      podOf('family', { ...shell(`trap "exit 0" TERM; ${escape} & wait`) }),
    );
    await machine.until('family', 'running', ({ state }) => state?.running !== undefined);
    const members = await eventually('its processes', async () => {
      const [marked, cleaned] = await Promise.all([
        processesWith(pod.metadata.uid),
        sleepers(seconds),
      ]);
      return marked.length >= 3 && cleaned.length === 1 ? [...marked, ...cleaned] : undefined;
    });
    await machine.client.delete(pods, 'default', 'family');
    await machine.gone('family');
    expect(await Promise.all(members.map(isAlive))).toEqual(members.map(() => false));
  });

  it('are killed when they ignore SIGTERM for longer than their grace', async () => {
    await machine.create(
      podOf('stubborn', shell('trap "" TERM; echo up; while true; do sleep 0.1; done'), {
        terminationGracePeriodSeconds: 1,
      }),
    );
    const pod = await machine.until(
      'stubborn',
      'running',
      ({ state }) => state?.running !== undefined,
    );
    await eventually('its trap', async () => (await machine.log(pod)) === 'up\n');
    const began = performance.now();
    await machine.client.delete(pods, 'default', 'stubborn');
    await machine.gone('stubborn');
    expect(performance.now() - began).toBeGreaterThan(950);
    expect(await processesWith(pod.metadata.uid)).toEqual([]);
  });

  it('are killed at once when they are deleted by force, and their address is free again', async () => {
    await machine.create(podOf('forced', shell('trap "" TERM; while true; do sleep 0.1; done')));
    const pod = await machine.until(
      'forced',
      'running',
      ({ state }) => state?.running !== undefined,
    );
    await machine.client.delete(pods, 'default', 'forced', { gracePeriodSeconds: 0 });
    await eventually(
      'its processes to be gone',
      async () => (await processesWith(pod.metadata.uid)).length === 0,
    );
    await eventually('its folder to be gone', () =>
      readFile(join(machine.dataDir, 'pods', pod.metadata.uid, 'main.log')).then(
        () => false,
        () => true,
      ),
    );
  });

  it('keep the files of their claim when they are created again', async () => {
    const metadata = { namespace: 'default', name: 'files' };
    const spec = { resources: { requests: { storage: '1Gi' } } };
    const claim = await machine.client.create(persistentVolumeClaims, {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata,
      spec,
    });
    const using = (script: string) =>
      podOf(
        'claimant',
        {
          ...shell(script),
          workingDir: '/work',
          volumeMounts: [{ name: 'work', mountPath: '/work' }],
        },
        {
          volumes: [{ name: 'work', persistentVolumeClaim: { claimName: 'files' } }],
          restartPolicy: 'Never',
        },
      );
    const succeeded = () =>
      machine.until('claimant', 'over', (_status, { status }) => status?.phase === 'Succeeded');
    const outside = join(machine.dataDir, 'outside');
    await writeFile(outside, 'precious');
    await machine.create(
      using(
        `echo kept > file; ln -s ${outside} link; mkdir -p locked/in; touch locked/in/x; chmod 500 locked/in locked`,
      ),
    );
    await succeeded();
    await machine.client.delete(pods, 'default', 'claimant');
    await machine.gone('claimant');
    await machine.create(using('cat file'));
    expect(await machine.log(await succeeded())).toBe('kept\n');
    await machine.client.delete(pods, 'default', 'claimant');
    await machine.gone('claimant');
    await machine.client.delete(persistentVolumeClaims, 'default', 'files');
    await eventually('the folder to be gone', () =>
      readFile(join(machine.dataDir, 'volumes', claim.metadata.uid, 'file')).then(
        () => false,
        () => true,
      ),
    );
    expect(await readFile(outside, 'utf8')).toBe('precious');
  });
});

describe('the log of a container', () => {
  let machine: Machine;

  beforeAll(async () => {
    machine = await Machine.start({
      backOff: { initialMs: 300, maxMs: 1000 },
      stopGraceMs: 1000,
      maxLogBytes: 10_000,
    });
  });

  afterAll(() => machine.close());

  it('has what it prints, its last lines, and the run before', async () => {
    await machine.create(
      podOf(
        'talker',
        shell(
          'if [ -e ran ]; then echo second; sleep 60; fi; touch ran; echo a; echo b >&2; echo c; exit 1',
        ),
      ),
    );
    const pod = await machine.until(
      'talker',
      'restarted',
      ({ restartCount, state }) => restartCount === 1 && state?.running !== undefined,
    );
    await eventually('the second run', async () => (await machine.log(pod)) === 'second\n');
    const previous = await machine.log(pod, { previous: true });
    expect(previous?.split('\n').toSorted().join('')).toBe('abc');
    expect((await machine.log(pod, { previous: true, tailLines: 2 }))?.split('\n')).toHaveLength(3);
    expect(await machine.log(pod, { tailLines: 0 })).toBe('');
  });

  it('is followed until it is rotated', async () => {
    const go = join(machine.dataDir, 'go');
    const line = 'x'.repeat(99);
    const script = `echo first; while [ ! -e ${go} ]; do sleep 0.05; done; i=0; while [ $i -lt 150 ]; do echo ${line}; i=$((i+1)); done; echo last`;
    await machine.create(podOf('flood', shell(script), { restartPolicy: 'Never' }));
    const pod = await machine.until(
      'flood',
      'running',
      ({ state }) => state?.running !== undefined,
    );
    const signal = new AbortController().signal;
    const stream = await eventually('the log', () =>
      machine.node.open(pod.metadata.uid, 'main', { follow: true, previous: false, signal }),
    );
    let text = '';
    for await (const chunk of stream) {
      text += Buffer.from(chunk).toString();
      if (text === 'first\n') await writeFile(go, '');
    }
    expect(text).toMatch(/^first\n(?:x{99}\n)*$/);
    await eventually('the last lines', async () => {
      const tail = (await machine.log(pod, { tailLines: 120 })) ?? '';
      return tail.endsWith('last\n') && tail.split('\n').length === 121;
    });
  });

  it('is no longer followed when the follower has gone', async () => {
    await machine.create(podOf('quiet', shell('echo here; sleep 60')));
    const pod = await machine.until(
      'quiet',
      'running',
      ({ state }) => state?.running !== undefined,
    );
    const abort = new AbortController();
    let chunks = 0;
    for await (const _chunk of machine.node.open(pod.metadata.uid, 'main', {
      follow: true,
      previous: false,
      signal: abort.signal,
    }) ?? []) {
      chunks += 1;
      setImmediate(() => abort.abort());
    }
    expect(chunks).toBe(1);
  });

  it('of an unknown container is none', () => {
    const options = { follow: false, previous: false, signal: new AbortController().signal };
    expect(machine.node.open('absent', 'main', options)).toBeUndefined();
  });
});
