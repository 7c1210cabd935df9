import { loopbackAddress, pathSegment } from '../../src/kubelet/node.ts';
import {
  expand,
  fieldOf,
  translateArgument,
  translatePath,
  workingDirOf,
} from '../../src/kubelet/container-environment.ts';
import { counted, noCount, portOf, probeError } from '../../src/kubelet/prober.ts';
import { parentsFirst, parseStat } from '../../src/kubelet/local-runner.ts';
import { unschedulableMessage } from '../../src/kubelet/node-controllers.ts';
import { aContainer, aPod } from './pods.ts';

const mounts = [
  { mountPath: '/workspace', folder: '/data/volumes/1' },
  { mountPath: '/workspace/cache', folder: '/data/pods/2/volumes/cache' },
];

describe('paths of a pod as paths of the machine', () => {
  it.each([
    ['/workspace', '/data/volumes/1'],
    ['/workspace/a/b', '/data/volumes/1/a/b'],
    ['/workspace/cache/x', '/data/pods/2/volumes/cache/x'],
    ['/workspaces', '/workspaces'],
    ['workspace', 'workspace'],
    ['http://host/workspace', 'http://host/workspace'],
  ])('%s becomes %s', (path, translated) => {
    expect(translatePath(path, mounts)).toBe(translated);
  });

  it.each([
    ['--data=/workspace/x', '--data=/data/volumes/1/x'],
    ['-d=/workspace', '-d=/data/volumes/1'],
    ['a=/workspace', 'a=/workspace'],
  ])('the argument %s becomes %s', (argument, translated) => {
    expect(translateArgument(argument, mounts)).toBe(translated);
  });

  it.each([
    [undefined, '/pod/home'],
    ['/workspace/', '/data/volumes/1'],
    ['/app', '/pod/root/app'],
    ['/../../etc', '/pod/root/etc'],
  ])('the working directory %s becomes %s', (workingDir, folder) => {
    expect(
      workingDirOf(
        aContainer('main', workingDir === undefined ? {} : { workingDir }),
        mounts,
        '/pod',
      ),
    ).toBe(folder);
  });

  it.each(['..', '.', '', 'a/b', 'a.b', '-a', 'a\0'])('%j is no name of a folder', (name) => {
    expect(() => pathSegment(name)).toThrow('not usable');
  });
});

describe('variables', () => {
  it.each([
    ['$(A)/x', '1/x'],
    ['$$(A)', '$(A)'],
    ['$(UNKNOWN) $A $', '$(UNKNOWN) $A $'],
    ['$(toString)', '$(toString)'],
  ])('%s expands to %s', (text, expanded) => {
    expect(expand(text, { A: '1' })).toBe(expanded);
  });

  it.each([
    ['metadata.name', 'web'],
    ['metadata.namespace', 'default'],
    ['metadata.uid', 'uid-1'],
    ["metadata.labels['app']", 'shop'],
    ["metadata.labels['none']", ''],
    ['status.podIP', '127.70.1.2'],
    ['spec.containers', undefined],
  ])('the field %s is %s', (path, value) => {
    const pod = aPod({}, { metadata: { labels: { app: 'shop' } } });
    expect(fieldOf(pod, path, { podIP: '127.70.1.2', hostIP: '127.0.0.1' })).toBe(value);
  });
});

describe('probes', () => {
  it('change their verdict at their thresholds only', () => {
    const probe = { successThreshold: 2, failureThreshold: 3 };
    let count = noCount;
    const verdicts = [true, true, false, false, true, false, false, false].map((ok) => {
      count = counted(count, { ok }, probe);
      return count.verdict;
    });
    expect(verdicts).toEqual([undefined, true, true, true, true, true, true, false]);
  });

  it('find a port by number, by numeric text and by name', () => {
    const container = aContainer('main', { ports: [{ name: 'http', containerPort: 8080 }] });
    expect([8000, '8000', 'http', 'grpc'].map((port) => portOf(port, container))).toEqual([
      8000,
      8000,
      8080,
      undefined,
    ]);
  });

  it('of a kind that is not supported are refused', () => {
    expect(probeError({ grpc: { port: 1 } }, aContainer('main'))).toContain('only httpGet');
  });
});

describe('/proc/<pid>/stat', () => {
  const rest = Array.from({ length: 30 }, (_, index) => index + 4).join(' ');

  it.each(['sh', 'a b', ') R 1 (', ''])('is read whatever the name of the program: %j', (name) => {
    expect(parseStat(`12 (${name}) S ${rest}\n`)).toEqual({
      state: 'S',
      session: 6,
      startTicks: 22,
    });
  });

  it('that can not be read is nothing', () => {
    expect(parseStat('')).toBeUndefined();
  });

  it('ends before its children, which have lower pids once those of the system begin again', () => {
    const entry = (pid: number, startTicks: number) => ({
      pid,
      startTicks,
      session: 32_760,
      node: undefined,
      run: undefined,
    });
    const [shell, child, next] = [entry(32_760, 500), entry(301, 501), entry(302, 501)];
    expect(parentsFirst([next, child, shell])).toEqual([shell, child, next]);
  });
});

describe('addresses', () => {
  it.each([
    [0, '127.64.1.1'],
    [0.999999, '127.127.254.254'],
  ])('are loopback addresses and no network or broadcast ones: %d', (value, address) => {
    expect(loopbackAddress(() => value)).toBe(address);
  });
});

describe('the scheduler', () => {
  const labels = { 'kubernetes.io/os': 'linux' };
  const claimed = aPod({
    volumes: [{ name: 'work', persistentVolumeClaim: { claimName: 'files' } }],
  });
  const claim = (phase: string, more: object = {}) => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { ...aPod().metadata, name: 'files', ...more },
    status: { phase },
  });

  it.each([
    ['takes a pod that asks for nothing', aPod(), undefined, undefined],
    ['takes a pod whose claim is bound', claimed, claim('Bound'), undefined],
    ['waits for a claim to exist', claimed, undefined, 'persistentvolumeclaim "files" not found'],
    ['waits for a claim to be bound', claimed, claim('Pending'), 'unbound immediate'],
    [
      'refuses a claim that is going',
      claimed,
      claim('Bound', { deletionTimestamp: '2030-01-01T00:00:00Z' }),
      'is being deleted',
    ],
    ['takes a pod whose selector matches', aPod({ nodeSelector: labels }), undefined, undefined],
    [
      'refuses a pod whose selector does not',
      aPod({ nodeSelector: { pool: 'gpu' } }),
      undefined,
      "didn't match",
    ],
  ])('%s', (_sentence, pod, found, message) => {
    const result = unschedulableMessage(pod, labels, () => found);
    if (message === undefined) expect(result).toBeUndefined();
    else expect(result).toContain(message);
  });
});
