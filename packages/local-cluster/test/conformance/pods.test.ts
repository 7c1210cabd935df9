import { causesOf } from './support/document.ts';
import { useServer } from './support/server.ts';

const server = useServer();
const at = (name: string, part?: string) => server().core('pods', name, part);
/** The name of no scheduler: a cluster with nodes leaves such a pod alone. */
const schedulerName = 'absent';
const pod = (name: string, spec: object = {}) => ({
  metadata: { name },
  spec: { schedulerName, containers: [{ name: 'main', image: 'busybox:1' }], ...spec },
});
const create = (name: string, spec: object = {}) =>
  server().post(server().core('pods'), pod(name, spec));
const bind = (name: string, node: string) =>
  server().post(at(name, 'binding'), {
    apiVersion: 'v1',
    kind: 'Binding',
    metadata: { name },
    target: { apiVersion: 'v1', kind: 'Node', name: node },
  });
const remove = (name: string, options?: object) => server().delete(at(name), options);

describe('a pod', () => {
  it('gets its defaults', async () => {
    const { status, body } = await create('p1', {
      schedulerName: undefined,
      containers: [
        {
          name: 'main',
          image: 'busybox',
          ports: [{ containerPort: 80 }],
          readinessProbe: { httpGet: { port: 80 } },
          resources: { limits: { cpu: '1', memory: '64Mi' } },
        },
      ],
    });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      metadata: { generation: 1 },
      spec: {
        restartPolicy: 'Always',
        terminationGracePeriodSeconds: 30,
        dnsPolicy: 'ClusterFirst',
        schedulerName: 'default-scheduler',
        enableServiceLinks: true,
        securityContext: {},
        containers: [
          {
            imagePullPolicy: 'Always',
            terminationMessagePath: '/dev/termination-log',
            terminationMessagePolicy: 'File',
            ports: [{ containerPort: 80, protocol: 'TCP' }],
            readinessProbe: {
              httpGet: { path: '/', port: 80, scheme: 'HTTP' },
              timeoutSeconds: 1,
              periodSeconds: 10,
              successThreshold: 1,
              failureThreshold: 3,
            },
            resources: {
              limits: { cpu: '1', memory: '64Mi' },
              requests: { cpu: '1', memory: '64Mi' },
            },
          },
        ],
      },
      status: { phase: 'Pending', qosClass: 'Guaranteed' },
    });
  });

  it.each([
    ['busybox', 'Always'],
    ['busybox:latest', 'Always'],
    ['busybox:1', 'IfNotPresent'],
    ['localhost:5000/busybox', 'Always'],
    ['localhost:5000/busybox:1', 'IfNotPresent'],
    [`busybox@sha256:${'0'.repeat(64)}`, 'IfNotPresent'],
  ])('pulls %s %s', async (image, policy) => {
    const { body } = await server().post(server().core('pods'), {
      metadata: { generateName: 'p-' },
      spec: { schedulerName, containers: [{ name: 'a', image }] },
    });
    expect(body.spec['containers']).toMatchObject([{ imagePullPolicy: policy }]);
  });

  it.each<[string, object, string]>([
    [
      'without containers',
      { containers: [] },
      'spec.containers: FieldValueRequired: Required value',
    ],
    [
      'with a container without a name',
      { containers: [{ image: 'a' }] },
      'spec.containers[0].name: FieldValueRequired: Required value',
    ],
    [
      'with a container without an image',
      { containers: [{ name: 'a' }] },
      'spec.containers[0].image: FieldValueRequired: Required value',
    ],
    [
      'with two containers of one name',
      {
        containers: [
          { name: 'a', image: 'a' },
          { name: 'a', image: 'b' },
        ],
      },
      'spec.containers[1].name: FieldValueDuplicate: Duplicate value: "a"',
    ],
    [
      'with a wrong restart policy',
      { restartPolicy: 'Sometimes' },
      'spec.restartPolicy: FieldValueNotSupported: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
    ],
    [
      'with a mount of no volume',
      { containers: [{ name: 'a', image: 'a', volumeMounts: [{ name: 'v', mountPath: '/v' }] }] },
      'spec.containers[0].volumeMounts[0].name: FieldValueNotFound: Not found: "v"',
    ],
    [
      'with two volumes of one name',
      {
        volumes: [
          { name: 'v', emptyDir: {} },
          { name: 'v', emptyDir: {} },
        ],
      },
      'spec.volumes[1].name: FieldValueDuplicate: Duplicate value: "v"',
    ],
    [
      'with an invalid variable',
      { containers: [{ name: 'a', image: 'a', env: [{ name: '', value: 'x' }] }] },
      'spec.containers[0].env[0].name: FieldValueRequired: Required value',
    ],
    [
      'with a port out of range',
      { containers: [{ name: 'a', image: 'a', ports: [{ containerPort: 70_000 }] }] },
      'spec.containers[0].ports[0].containerPort: FieldValueInvalid: Invalid value: 70000: must be between 1 and 65535, inclusive',
    ],
    [
      'with more requested than allowed',
      {
        containers: [
          { name: 'a', image: 'a', resources: { requests: { cpu: '2' }, limits: { cpu: '1' } } },
        ],
      },
      'spec.containers[0].resources.requests: FieldValueInvalid: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ],
  ])('is refused %s', async (_, spec, cause) => {
    const { status, body } = await create('refused', spec);
    expect(status).toBe(422);
    expect(causesOf(body)).toContain(cause);
  });

  it('refuses a quantity that is none', async () => {
    const { status, body } = await create('refused', {
      containers: [{ name: 'a', image: 'a', resources: { limits: { cpu: 'many' } } }],
    });
    expect([status, body.reason]).toEqual([400, 'BadRequest']);
    expect(body.message).toContain('quantities must match the regular expression');
  });

  it('writes quantities in one form', async () => {
    const { body } = await create('p2', {
      containers: [
        {
          name: 'a',
          image: 'a',
          resources: { limits: { cpu: 0.5, memory: '1024Mi' }, requests: { cpu: '0.1' } },
        },
      ],
    });
    expect(body.spec['containers']).toMatchObject([
      {
        resources: {
          limits: { cpu: '500m', memory: '1Gi' },
          requests: { cpu: '100m', memory: '1Gi' },
        },
      },
    ]);
    expect(body.status).toMatchObject({ qosClass: 'Burstable' });
  });

  it('lets its image change, and little else', async () => {
    await create('p3');
    const image = await server().strategicPatch(at('p3'), {
      spec: { containers: [{ name: 'main', image: 'busybox:2' }] },
    });
    expect([image.status, image.body.metadata.generation]).toEqual([200, 2]);
    const command = await server().strategicPatch(at('p3'), {
      spec: { containers: [{ name: 'main', command: ['x'] }] },
    });
    expect([command.status, command.body.reason]).toEqual([422, 'Invalid']);
    expect(command.body.message).toMatch(
      /spec: Forbidden: pod updates may not change fields other than `spec\.containers\[\*\]\.image`/,
    );
    expect((await server().mergePatch(at('p3'), { metadata: { labels: { a: 'b' } } })).status).toBe(
      200,
    );
  });

  it('has its status written by its own path', async () => {
    await create('p4');
    const { status, body } = await server().mergePatch(at('p4', 'status'), {
      status: { phase: 'Running', podIP: '10.0.0.1', podIPs: [{ ip: '10.0.0.1' }] },
    });
    expect(status).toBe(200);
    expect(body.status).toMatchObject({ phase: 'Running', podIP: '10.0.0.1' });
    const again = await server().strategicPatch(at('p4', 'status'), {
      status: {
        conditions: [
          {
            type: 'Ready',
            status: 'True',
            lastProbeTime: null,
            lastTransitionTime: '2026-01-01T00:00:00Z',
          },
        ],
      },
    });
    expect(again.body.status).toMatchObject({ conditions: [{ type: 'Ready', status: 'True' }] });
    const { status: kept } = await server().mergePatch(at('p4'), { status: { phase: 'Failed' } });
    expect(kept).toBe(200);
    expect((await server().get(at('p4'))).body.status).toMatchObject({ phase: 'Running' });
  });
});

describe('binding', () => {
  it('puts a pod on a node, once', async () => {
    await create('b1');
    const { status, body } = await bind('b1', 'n1');
    expect([status, body]).toEqual([
      201,
      { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 },
    ]);
    const { body: bound } = await server().get(at('b1'));
    expect(bound.spec['nodeName']).toBe('n1');
    expect(bound.status).toMatchObject({ conditions: [{ type: 'PodScheduled', status: 'True' }] });
    const again = await bind('b1', 'n2');
    expect([again.status, again.body.message]).toEqual([
      409,
      'Operation cannot be fulfilled on pods/binding "b1": pod b1 is already assigned to node "n1"',
    ]);
  });

  it('is refused for a pod that goes', async () => {
    await server().post(server().core('pods'), {
      ...pod('b2'),
      metadata: { name: 'b2', finalizers: ['example.com/a'] },
    });
    await remove('b2');
    const { status, body } = await bind('b2', 'n1');
    expect([status, body.message]).toEqual([
      409,
      'Operation cannot be fulfilled on pods/binding "b2": pod b2 is being deleted, cannot be assigned to a host',
    ]);
    await server().mergePatch(at('b2'), { metadata: { finalizers: null } });
  });

  it('needs a pod', async () => {
    expect((await bind('absent', 'n1')).status).toBe(404);
  });
});

describe('deleting a pod', () => {
  it('that no node has taken takes no time', async () => {
    await create('d1');
    const { status, body } = await remove('d1');
    expect([status, body.kind, body.metadata.name]).toEqual([200, 'Pod', 'd1']);
    expect((await server().get(at('d1'))).status).toBe(404);
  });

  it('that a node has taken waits for the node', async () => {
    await create('d2', { nodeName: 'n1' });
    const { body } = await remove('d2');
    expect(body.metadata).toMatchObject({ deletionGracePeriodSeconds: 30, generation: 2 });
    const waitsMs = Date.parse(body.metadata.deletionTimestamp ?? '') - Date.now();
    expect(waitsMs).toBeGreaterThan(25_000);
    expect(waitsMs).toBeLessThan(35_000);
    expect((await server().get(at('d2'))).status).toBe(200);
    const { status } = await remove('d2', { gracePeriodSeconds: 0 });
    expect(status).toBe(200);
    expect((await server().get(at('d2'))).status).toBe(404);
  });

  it('takes the grace that is asked for', async () => {
    await create('d3', { nodeName: 'n1', terminationGracePeriodSeconds: 100 });
    const { body } = await remove('d3', { gracePeriodSeconds: 50 });
    expect(body.metadata).toMatchObject({ deletionGracePeriodSeconds: 50 });
    await remove('d3', { gracePeriodSeconds: 0 });
  });

  it('can be hastened, not slowed down', async () => {
    await create('d4', { nodeName: 'n1' });
    const { body: first } = await remove('d4', { gracePeriodSeconds: 20 });
    const { body: slower } = await remove('d4', { gracePeriodSeconds: 60 });
    expect(slower.metadata).toMatchObject({
      deletionGracePeriodSeconds: 20,
      deletionTimestamp: first.metadata.deletionTimestamp,
    });
    const { body: faster } = await remove('d4', { gracePeriodSeconds: 5 });
    expect(faster.metadata).toMatchObject({ deletionGracePeriodSeconds: 5 });
    expect(Date.parse(faster.metadata.deletionTimestamp ?? '')).toBeLessThan(
      Date.parse(first.metadata.deletionTimestamp ?? ''),
    );
    await remove('d4', { gracePeriodSeconds: 0 });
  });

  it('that has ended takes no time', async () => {
    await create('d5', { nodeName: 'n1' });
    await server().mergePatch(at('d5', 'status'), { status: { phase: 'Succeeded' } });
    await remove('d5');
    expect((await server().get(at('d5'))).status).toBe(404);
  });

  it('waits for finalizers after its grace', async () => {
    await server().post(server().core('pods'), {
      ...pod('d6', { nodeName: 'n1' }),
      metadata: { name: 'd6', finalizers: ['example.com/a'] },
    });
    await remove('d6', { gracePeriodSeconds: 0 });
    const { body } = await server().get(at('d6'));
    expect(body.metadata).toMatchObject({
      deletionGracePeriodSeconds: 0,
      finalizers: ['example.com/a'],
    });
    await server().mergePatch(at('d6'), { metadata: { finalizers: null } });
    expect((await server().get(at('d6'))).status).toBe(404);
  });

  it('goes with a grace of its own of zero', async () => {
    await create('d7', { nodeName: 'n1', terminationGracePeriodSeconds: 0 });
    await remove('d7');
    expect((await server().get(at('d7'))).status).toBe(404);
  });
});

describe('logs', () => {
  it('of a pod on no node are none', async () => {
    await create('l1');
    const { status, text } = await server().get(at('l1', 'log'));
    expect([status, text]).toEqual([204, '']);
  });

  it('need to know of which container', async () => {
    await create('l2', {
      containers: [
        { name: 'a', image: 'a' },
        { name: 'b', image: 'b' },
      ],
    });
    const { status, body } = await server().get(at('l2', 'log'));
    expect([status, body.message]).toEqual([
      400,
      'a container name must be specified for pod l2, choose one of: [a b]',
    ]);
    const other = await server().get(at('l2', 'log'), { query: { container: 'c' } });
    expect([other.status, other.body.message]).toEqual([
      400,
      'container c is not valid for pod l2',
    ]);
  });
});
