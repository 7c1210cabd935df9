import { eventually } from '../support/eventually.ts';
import { marker } from '../support/model-server.ts';
import { apply, getJson, kubectl, serviceAddress } from './support/cluster.ts';
import { agentImage, helm, release, report, TestedInstallation } from './support/installation.ts';
import { startModelServer } from './support/model-server.ts';
import { selected } from './support/network-policies.ts';
import { committed, rightsOf } from './support/rights.ts';

const up = new TestedInstallation('talk');
const { namespace, sandboxes, tools, previousChart } = up.facts;
const withinMs = 90_000;
const secret = 'relay-model-keys';
const modelKey = 'sk-of-the-relay';
const file = '/etc/conversation-operator/agent-credentials/team';
const text = `Work. ${marker('relay')}`;

const podsOf = (component: string) =>
  selected(namespace, {
    matchLabels: {
      'app.kubernetes.io/instance': release,
      'app.kubernetes.io/component': component,
    },
  });

const secondsSince = (begun: number) => `${((performance.now() - begun) / 1000).toFixed(1)} s`;

/** The output of a script of Node in a pod of the release. */
const inPod = (pod: string, script: string) =>
  kubectl(['--namespace', namespace, 'exec', pod, '--', '/usr/local/bin/node', '-e', script]);

/** Number of model calls that the pods of a Deployment have answered. */
async function callsAt(component: string): Promise<number> {
  const figures = await Promise.all(
    (await podsOf(component)).map((pod) =>
      inPod(
        pod,
        "fetch('http://127.0.0.1:9464/metrics').then(async (answer) => console.log(await answer.text()))",
      ),
    ),
  );
  return figures
    .flatMap((text) => [...text.matchAll(/_model_calls_total\{[^}]*"answered"[^}]*\} (\d+)/g)])
    .reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Moves the relay out of the gateway, and waits until the gateways of before are gone. */
async function moveRelay(): Promise<void> {
  const begun = performance.now();
  const values = ['relay.replicas=2', `agentCredentials.existingSecret=${secret}`];
  await helm([
    ...['upgrade', release, previousChart, '--namespace', namespace, '--reuse-values'],
    ...values.flatMap((value) => ['--set', value]),
    ...['--wait', '--timeout', '180s'],
  ]);
  report('relay.replicas=2, helm upgrade --wait', secondsSince(begun));
  await eventually(
    'the gateways of before to be gone',
    async () => (await podsOf('gateway')).length === 2,
    withinMs,
  );
}

/** A template with a model. */
async function applyTemplate(baseUrl: string): Promise<void> {
  const { spec } = await getJson<{ spec: { podTemplate: { spec: object }; agent: object } }>(
    `--namespace ${sandboxes} sandboxtemplate default`,
  );
  // A cluster of test/cluster has no DNS: sandboxes get the relay's name as a file.
  const ip = await serviceAddress(namespace, `${release}-models`);
  const hostAliases = [{ ip, hostnames: [`${release}-models.${namespace}.svc`] }];
  const podTemplate = { ...spec.podTemplate, spec: { ...spec.podTemplate.spec, hostAliases } };
  await apply({
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'SandboxTemplate',
    metadata: { name: 'relayed', namespace: sandboxes },
    spec: { ...spec, podTemplate, agent: { ...spec.agent, model: 'openai/m', baseUrl } },
  });
}

describe('a relay for models of its own', () => {
  let id = '';
  let sandbox = '';

  beforeAll(async () => {
    const { repository, tag } = agentImage();
    const model = await startModelServer(tools, `${repository}:${tag}`);
    await kubectl(
      `--namespace ${namespace} create secret generic ${secret} --from-literal=team=${modelKey}`,
    );
    await applyTemplate(model);
    const { id: task } = await up.start(text, { sandbox_spec_id: 'relayed' });
    const { status, error, ...begun } = await up.over(task, withinMs);
    expect({ status, error }).toEqual({ status: 'READY', error: null });
    id = begun.app_conversation_id ?? '';
    sandbox = begun.sandbox_id ?? '';
    await up.reaches(id, { execution_status: 'finished' }, withinMs);
    expect(await callsAt('gateway')).toBeGreaterThan(0);
    await moveRelay();
  }, 300_000);

  // The relay stays until the next upgrade with the values of all parts.
  afterAll(async () => {
    await up.call('DELETE', `/api/v1/app-conversations/${id}`);
    await up.k('delete sandboxtemplate relayed --ignore-not-found');
    await kubectl(`--namespace ${tools} delete deployment,service,configmap model`);
  }, 60_000);

  it(
    'serves the calls of an agent that has run before',
    async () => {
      const credential = { spec: { agent: { credential: 'team' } } };
      await up.k([
        ...['patch', 'sandboxtemplate', 'relayed', '--type', 'merge'],
        ...['--patch', JSON.stringify(credential)],
      ]);
      const message = { role: 'user', content: [{ type: 'text', text }], run: true };
      const path = `/api/v1/app-conversations/${id}/send-message`;
      expect((await up.call('POST', path, message)).status).toBe(200);
      await eventually('a call', async () => (await callsAt('relay')) > 0, withinMs);
      await up.reaches(id, { execution_status: 'finished' }, withinMs);
      expect(await callsAt('gateway')).toBe(0);
    },
    3 * withinMs,
  );

  it('has the key of the model, which no gateway and no sandbox has', async () => {
    const read = `const { existsSync, readFileSync } = require('fs'); console.log(existsSync('${file}') && readFileSync('${file}', 'utf8'))`;
    for (const pod of await podsOf('relay')) expect(await inPod(pod, read)).toBe(modelKey);
    for (const pod of await podsOf('gateway')) expect(await inPod(pod, read)).toBe('false');
    expect(await up.inSandbox(sandbox, 'cat /proc/[0-9]*/environ')).not.toContain(modelKey);
  });

  it('has an account with the rights that are committed, and no other', async () => {
    expect(await rightsOf(up.facts, 'relay', sandboxes)).toEqual(committed('relay'));
    expect(await rightsOf(up.facts, 'relay', namespace)).toEqual(committed('elsewhere'));
  });
});
