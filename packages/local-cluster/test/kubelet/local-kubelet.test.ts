import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LocalKubelet } from '../../src/kubelet/local-kubelet.ts';
import type { LocalKubeletOptions } from '../../src/kubelet/options.ts';
import { ApiError, TransportError } from '../../../kube/src/errors.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import {
  configMaps,
  nodes,
  persistentVolumeClaims,
  pods,
  secrets,
  type Container,
  type PersistentVolumeClaim,
  type Pod,
} from '../../../kube/src/core.ts';
import type { NewObject } from '../../../kube/src/object.ts';
import { eventually } from '../../../../test/support/eventually.ts';
import { FakeKubeClient } from '../../../../test/support/fake-kube-client.ts';
import {
  FakeProcessRunner,
  type FakeProcess,
} from '../../../../test/support/fake-process-runner.ts';
import { VirtualClock } from '../../../../test/support/virtual-clock.ts';
import { aContainer } from './pods.ts';

type Spec = NonNullable<Pod['spec']>;

/** A node whose processes do what the test says, in a time that passes when the test says so. */
class Bench {
  readonly client = new FakeKubeClient();
  readonly runner = new FakeProcessRunner();
  readonly clock = new VirtualClock();
  readonly dataDir: string;
  readonly node: LocalKubelet;

  constructor(dataDir: string, options: Partial<LocalKubeletOptions> = {}) {
    this.dataDir = dataDir;
    this.node = new LocalKubelet({
      client: this.client,
      dataDir,
      images: {
        program: { command: ['/bin/program'], env: { FROM_IMAGE: 'image', DATA: '/work/data' } },
      },
      clock: this.clock,
      random: Math.random,
      logger: silentLogger,
      runner: this.runner,
      environment: { PATH: '/bin', LANG: 'C', SECRET_OF_THE_OPERATOR: 'x' },
      ...options,
    });
  }

  create(spec: Partial<Spec> & { main?: Partial<Container> } = {}, name = 'web'): Promise<Pod> {
    const { main, ...rest } = spec;
    const pod: NewObject<Pod> = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: 'default', name },
      spec: { containers: [aContainer('main', main)], ...rest },
    };
    return this.client.create(pods, pod);
  }

  pod(name = 'web'): Promise<Pod> {
    return this.client.get(pods, 'default', name);
  }

  /** The pod's only container, once it is as expected. */
  status(
    what: string,
    check: (
      status: NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number],
    ) => boolean,
    name = 'web',
  ) {
    return eventually(what, async () => {
      const status = (await this.pod(name)).status?.containerStatuses?.[0];
      return status !== undefined && check(status) ? status : undefined;
    });
  }

  process(count: number): Promise<FakeProcess> {
    return eventually(`process ${count}`, () => this.runner.processes[count - 1]);
  }

  gone(name = 'web'): Promise<boolean> {
    return eventually('the pod to be gone', () =>
      this.pod(name).then(
        () => false,
        () => true,
      ),
    );
  }
}

describe('a local kubelet', () => {
  let dataDir: string;
  let bench: Bench;

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'local-kubelet-'));
    bench = new Bench(dataDir);
    await bench.node.start();
  });

  afterEach(async () => {
    bench.client.fault = () => undefined;
    const stopped = bench.node.stop();
    bench.runner.processes.forEach((process) => process.exit(0));
    await stopped;
    expect(bench.clock.timers).toBe(0);
    await rm(dataDir, { recursive: true, force: true });
  });

  it('registers itself as a ready node', async () => {
    const { status } = await bench.client.get(nodes, '', 'local');
    expect(status?.conditions?.[0]).toMatchObject({ type: 'Ready', status: 'True' });
  });

  it('binds a pod, gives it an address and runs it with nothing of its own environment but what is allowed', async () => {
    const { metadata } = await bench.create({
      main: {
        args: ['--name=$(NAME)', '$(UNKNOWN)'],
        env: [
          { name: 'NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
          { name: 'GREETING', value: 'I am $(NAME)' },
        ],
      },
    });
    const { request } = await bench.process(1);
    const status = await bench.status('ready', ({ ready }) => ready);
    const pod = await bench.pod();
    const podIP = pod.status?.podIP;
    const folder = join(dataDir, 'pods', metadata.uid);
    expect(pod.spec?.nodeName).toBe('local');
    expect(podIP).toMatch(/^127\./);
    expect(status).toMatchObject({
      restartCount: 0,
      started: true,
      containerID: expect.stringMatching(/^process:\/\//) as unknown,
    });
    expect(request.command).toEqual(['/bin/program', '--name=web', '$(UNKNOWN)']);
    expect(request.workingDir).toBe(join(folder, 'home'));
    expect(request.env).toEqual({
      PATH: '/bin',
      LANG: 'C',
      HOSTNAME: 'web',
      HOME: join(folder, 'home'),
      TMPDIR: join(folder, 'tmp'),
      POD_IP: podIP,
      HOST: podIP,
      FROM_IMAGE: 'image',
      DATA: '/work/data',
      NAME: 'web',
      GREETING: 'I am web',
    });
  });

  it('reads secrets and config maps, and translates mounted paths', async () => {
    const metadata = { namespace: 'default', name: 'settings' };
    await bench.client.create(secrets, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata,
      data: { KEY: Buffer.from('s3').toString('base64') },
    });
    await bench.client.create(configMaps, {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata,
      data: { MODE: 'fast' },
    });
    const { metadata: pod } = await bench.create({
      volumes: [
        { name: 'scratch', emptyDir: {} },
        { name: 'files', secret: { secretName: 'settings' } },
      ],
      main: {
        workingDir: '/work/sub',
        args: ['/secrets/KEY'],
        env: [{ name: 'KEY', valueFrom: { secretKeyRef: { name: 'settings', key: 'KEY' } } }],
        envFrom: [{ prefix: 'MAP_', configMapRef: { name: 'settings' } }],
        volumeMounts: [
          { name: 'scratch', mountPath: '/work' },
          { name: 'files', mountPath: '/secrets' },
        ],
      },
    });
    const { request } = await bench.process(1);
    const volumes = join(dataDir, 'pods', pod.uid, 'volumes');
    expect(request.env).toMatchObject({
      KEY: 's3',
      MAP_MODE: 'fast',
      DATA: join(volumes, 'scratch', 'data'),
    });
    expect(request.workingDir).toBe(join(volumes, 'scratch', 'sub'));
    expect(await readFile(request.command[1] ?? '', 'utf8')).toBe('s3');
  });

  it('restarts a crashed container at once, then with a growing delay', async () => {
    await bench.create();
    (await bench.process(1)).exit(3);
    (await bench.process(2)).exit(3);
    const waiting = await bench.status(
      'a crash loop',
      ({ state }) => state?.waiting?.reason === 'CrashLoopBackOff',
    );
    expect(waiting).toMatchObject({
      restartCount: 1,
      ready: false,
      lastState: { terminated: { exitCode: 3, reason: 'Error' } },
    });
    await bench.clock.advance(9_900);
    expect(bench.runner.processes).toHaveLength(2);
    await bench.clock.advance(200);
    (await bench.process(3)).exit(3);
    await bench.status(
      'a crash loop again',
      ({ state, restartCount }) => state?.waiting !== undefined && restartCount === 2,
    );
    await bench.clock.advance(19_900);
    expect(bench.runner.processes).toHaveLength(3);
    await bench.clock.advance(200);
    await bench.process(4);
  });

  it.each([
    {
      sentence: 'an image it has no program for',
      main: { image: 'unknown' },
      reason: 'ErrImagePull',
      message: 'image "unknown"',
    },
    {
      sentence: 'a secret that does not exist',
      main: { env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 'none', key: 'k' } } }] },
      reason: 'CreateContainerConfigError',
      message: 'secret "none" not found',
    },
    {
      sentence: 'a probe it can not do',
      main: { livenessProbe: { grpc: { port: 1 } } },
      reason: 'CreateContainerConfigError',
      message: 'only httpGet',
    },
    {
      sentence: 'a volume it does not have',
      main: { volumeMounts: [{ name: 'host', mountPath: '/host' }] },
      volumes: [{ name: 'host', hostPath: { path: '/' } }],
      reason: 'CreateContainerConfigError',
      message: 'volume "host"',
    },
    {
      sentence: 'a subPath',
      main: { volumeMounts: [{ name: 'v', mountPath: '/v', subPath: 'a' }] },
      volumes: [{ name: 'v', emptyDir: {} }],
      reason: 'CreateContainerConfigError',
      message: 'subPath',
    },
  ])('says why it does not start $sentence', async ({ main, volumes, reason, message }) => {
    await bench.create({ main, ...(volumes === undefined ? {} : { volumes }) });
    const { state } = await bench.status(
      'waiting',
      (status) => status.state?.waiting?.reason === reason,
    );
    expect(state?.waiting?.message).toContain(message);
    expect((await bench.pod()).status?.phase).toBe('Pending');
  });

  it('turns to ImagePullBackOff when the image stays unknown, and disturbs no other pod', async () => {
    await bench.create({ main: { image: 'unknown' } });
    await bench.status('refused', ({ state }) => state?.waiting?.reason === 'ErrImagePull');
    await bench.clock.advance(10_100);
    await bench.status(
      'refused again',
      ({ state }) => state?.waiting?.reason === 'ImagePullBackOff',
    );
    await bench.create({}, 'other');
    await bench.status('ready', ({ ready }) => ready, 'other');
  });

  it('starts a container when the secret it waits for appears', async () => {
    await bench.create({ main: { envFrom: [{ secretRef: { name: 'late' } }] } });
    await bench.status(
      'waiting',
      ({ state }) => state?.waiting?.reason === 'CreateContainerConfigError',
    );
    const metadata = { namespace: 'default', name: 'late' };
    await bench.client.create(secrets, { apiVersion: 'v1', kind: 'Secret', metadata, data: {} });
    await bench.clock.advance(2_100);
    await bench.status('ready', ({ ready }) => ready);
  });

  it('reports a program that can not be started as a failed run', async () => {
    bench.runner.fault = () =>
      Object.assign(new Error('spawn /bin/program ENOENT'), { code: 'ENOENT' });
    await bench.create({ restartPolicy: 'Never' });
    const { state } = await bench.status(
      'terminated',
      (status) => status.state?.terminated !== undefined,
    );
    expect(state?.terminated).toMatchObject({
      exitCode: 128,
      reason: 'StartError',
      message: 'spawn /bin/program ENOENT',
    });
    expect((await bench.pod()).status?.phase).toBe('Failed');
  });

  it('sends SIGTERM to a deleted pod, SIGKILL when its grace is over, and then lets it go', async () => {
    await bench.create({ terminationGracePeriodSeconds: 30 });
    const process = await bench.process(1);
    await bench.status('ready', ({ ready }) => ready);
    await bench.client.delete(pods, 'default', 'web');
    await eventually('SIGTERM', () => process.signals.includes('SIGTERM'));
    await bench.clock.advance(29_900);
    expect(process.signals).toEqual(['SIGTERM']);
    expect((await bench.pod()).metadata.deletionTimestamp).toBeDefined();
    await bench.clock.advance(200);
    expect(process.signals).toEqual(['SIGTERM', 'SIGKILL']);
    await bench.gone();
  });

  it('shortens the grace when the pod is deleted again with a shorter one', async () => {
    await bench.create();
    const process = await bench.process(1);
    await bench.status('ready', ({ ready }) => ready);
    await bench.client.delete(pods, 'default', 'web', { gracePeriodSeconds: 100 });
    await eventually('SIGTERM', () => process.signals.includes('SIGTERM'));
    await bench.client.delete(pods, 'default', 'web', { gracePeriodSeconds: 1 });
    await eventually('the pod to be gone', async () => {
      await bench.clock.advance(500);
      return !(await bench.client.list(pods)).items.length;
    });
    expect(bench.clock.monotonic()).toBeLessThan(50_000);
    expect(process.signals).toEqual(['SIGTERM', 'SIGKILL']);
  });

  it('kills a pod that vanishes, before the next one of its name starts', async () => {
    await bench.create();
    const first = await bench.process(1);
    await bench.status('ready', ({ ready }) => ready);
    await bench.client.delete(pods, 'default', 'web', { gracePeriodSeconds: 0 });
    await bench.create();
    await bench.process(2);
    expect(first.signals).toEqual(['SIGKILL']);
  });

  it('continues through conflicts and a server that does not answer', async () => {
    let failures = 6;
    bench.client.fault = ({ verb }) => {
      if (verb !== 'updateStatus' || failures === 0) return undefined;
      failures -= 1;
      return failures % 2 === 0
        ? new TransportError('reset')
        : new ApiError(409, { reason: 'Conflict' });
    };
    await bench.create();
    await eventually('ready', async () => {
      await bench.clock.advance(1000);
      return (await bench.pod()).status?.containerStatuses?.[0]?.ready;
    });
    expect(bench.runner.processes).toHaveLength(1);
  });

  it('writes a status only when it has changed', async () => {
    await bench.create();
    await bench.status('ready', ({ ready }) => ready);
    const { metadata } = await bench.pod();
    await bench.client.mergePatch(pods, 'default', 'web', {
      metadata: { labels: { touched: 'yes' } },
    });
    await bench.clock.advance(60_000);
    expect(Number((await bench.pod()).metadata.resourceVersion)).toBe(
      Number(metadata.resourceVersion) + 1,
    );
  });

  it('binds a claim to a folder of its own, which goes with the claim once no pod uses it', async () => {
    const claim: NewObject<PersistentVolumeClaim> = {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { namespace: 'default', name: 'files' },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    };
    await bench.create({
      volumes: [{ name: 'work', persistentVolumeClaim: { claimName: 'files' } }],
      main: { workingDir: '/work', volumeMounts: [{ name: 'work', mountPath: '/work' }] },
    });
    await eventually('unschedulable', async () =>
      (await bench.pod()).status?.conditions?.some(
        ({ message }) => message?.includes('"files" not found') === true,
      ),
    );
    const { metadata } = await bench.client.create(persistentVolumeClaims, claim);
    const { request } = await bench.process(1);
    const folder = join(dataDir, 'volumes', metadata.uid);
    expect(request.workingDir).toBe(folder);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
    expect(await bench.client.get(persistentVolumeClaims, 'default', 'files')).toMatchObject({
      spec: { volumeName: `pvc-${metadata.uid}` },
      status: { phase: 'Bound', capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'] },
    });
    await bench.status('ready', ({ ready }) => ready);
    await bench.client.delete(persistentVolumeClaims, 'default', 'files');
    await bench.clock.advance(1000);
    expect((await stat(folder)).isDirectory()).toBe(true);
    await bench.client.delete(pods, 'default', 'web', { gracePeriodSeconds: 0 });
    await eventually('the folder to be gone', () =>
      stat(folder).then(
        () => false,
        () => true,
      ),
    );
  });

  it('stops every container within its grace, and runs the pods again at the next start, whatever their restart policy', async () => {
    await bench.create({ restartPolicy: 'Never' });
    const process = await bench.process(1);
    const before = await bench.status('ready', ({ ready }) => ready);
    const stopped = bench.node.stop();
    await eventually('SIGTERM', () => process.signals.includes('SIGTERM'));
    await bench.clock.advance(5_100);
    await stopped;
    expect(process.signals).toEqual(['SIGTERM', 'SIGKILL']);
    expect((await bench.pod()).status).toMatchObject({
      phase: 'Running',
      containerStatuses: [{ ready: false, restartCount: 0 }],
    });
    await bench.node.start();
    const after = await bench.status('ready', ({ ready }) => ready);
    expect(after.restartCount).toBe(1);
    expect(after.containerID).not.toBe(before.containerID);
  });

  it('is the only one on its data folder', async () => {
    await expect(new Bench(dataDir).node.start()).rejects.toThrow(
      'another process runs a node on this data folder',
    );
  });
});
