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
const folder = '/etc/conversation-operator/agent-credentials';

const podsOf = (component: string) =>
  selected(namespace, {
    matchLabels: {
      'app.kubernetes.io/instance': release,
      'app.kubernetes.io/component': component,
    },
  });

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

/** Sets the number of relays, and waits until the pods of before are gone. */
async function setRelays(replicas: number, keys: string): Promise<void> {
  const begun = performance.now();
  const values = [`relay.replicas=${replicas}`, `agentCredentials.existingSecret=${keys}`];
  await helm([
    ...['upgrade', release, previousChart, '--namespace', namespace, '--reuse-values'],
    ...values.flatMap((value) => ['--set', value]),
    ...['--wait', '--timeout', '180s'],
  ]);
  report(
    `relay.replicas=${replicas}, helm upgrade --wait`,
    `${((performance.now() - begun) / 1000).toFixed(1)} s`,
  );
  await eventually(
    'the pods of before to be gone',
    async () =>
      (await podsOf('gateway')).length === 2 && (await podsOf('relay')).length === replicas,
    withinMs,
  );
}

/** A template with a model, one of them with a key. */
async function applyTemplates(baseUrl: string): Promise<void> {
  const { spec } = await getJson<{ spec: { podTemplate: { spec: object }; agent: object } }>(
    `--namespace ${sandboxes} sandboxtemplate default`,
  );
  // A cluster of test/cluster has no DNS: sandboxes get the relay's name as a file.
  const ip = await serviceAddress(namespace, `${release}-models`);
  const hostAliases = [{ ip, hostnames: [`${release}-models.${namespace}.svc`] }];
  const podTemplate = { ...spec.podTemplate, spec: { ...spec.podTemplate.spec, hostAliases } };
  const template = (name: string, more: object) => ({
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'SandboxTemplate',
    metadata: { name, namespace: sandboxes },
    spec: { ...spec, podTemplate, agent: { ...spec.agent, model: 'openai/m', baseUrl, ...more } },
  });
  await apply(
    template('relayed', {}),
    template('relayed-with-key', { credential: 'team', allowedModels: [] }),
  );
}

async function begin(template: string): Promise<{ id: string; sandbox: string }> {
  const { id } = await up.start(`Work. ${marker('relay')}`, { sandbox_spec_id: template });
  const task = await up.over(id, withinMs);
  expect({ status: task.status, error: task.error }).toEqual({ status: 'READY', error: null });
  const begun = { id: task.app_conversation_id ?? '', sandbox: task.sandbox_id ?? '' };
  await up.reaches(begun.id, { execution_status: 'finished' }, withinMs);
  return begun;
}

/** Sends a message, and waits until the agent has called its model for it at the Deployment. */
async function callsAgain(id: string, component: string): Promise<void> {
  const before = await callsAt(component);
  const message = {
    role: 'user',
    content: [{ type: 'text', text: `Go on. ${marker('relay')}` }],
    run: true,
  };
  const path = `/api/v1/app-conversations/${id}/send-message`;
  expect((await up.call('POST', path, message)).status).toBe(200);
  await eventually(
    `a call at the ${component}`,
    async () => (await callsAt(component)) > before,
    withinMs,
  );
  await up.reaches(id, { execution_status: 'finished' }, withinMs);
}

describe('a relay for models of its own', () => {
  let earlier: { id: string; sandbox: string };
  const begun: string[] = [];

  beforeAll(async () => {
    const { repository, tag } = agentImage();
    const model = await startModelServer(tools, `${repository}:${tag}`);
    await kubectl(
      `--namespace ${namespace} create secret generic ${secret} --from-literal=team=${modelKey}`,
    );
    await applyTemplates(model);
    earlier = await begin('relayed');
    begun.push(earlier.id);
    expect(await callsAt('gateway')).toBeGreaterThan(0);
    await setRelays(2, secret);
  }, 300_000);

  afterAll(async () => {
    await Promise.all(begun.map((id) => up.call('DELETE', `/api/v1/app-conversations/${id}`)));
    await up.k('delete sandboxtemplate relayed relayed-with-key --ignore-not-found');
    await kubectl(`--namespace ${namespace} delete secret ${secret}`);
    await kubectl(`--namespace ${tools} delete deployment,service,configmap model`);
  }, 60_000);

  it(
    'calls the model of a new agent, with a key that no gateway has',
    async () => {
      const { id, sandbox } = await begin('relayed-with-key');
      begun.push(id);
      expect(await callsAt('relay')).toBeGreaterThan(0);
      expect(await callsAt('gateway')).toBe(0);
      const read = `console.log(require('fs').existsSync('${folder}/team') && require('fs').readFileSync('${folder}/team', 'utf8'))`;
      for (const pod of await podsOf('relay')) expect(await inPod(pod, read)).toBe(modelKey);
      for (const pod of await podsOf('gateway')) expect(await inPod(pod, read)).toBe('false');
      const environment = await up.inSandbox(sandbox, 'cat /proc/[0-9]*/environ | tr "\\0" "\\n"');
      expect(environment).not.toContain(modelKey);
    },
    2 * withinMs,
  );

  it('has an account with the rights that are committed, and no other', async () => {
    expect(await rightsOf(up.facts, 'relay', sandboxes)).toEqual(committed('relay'));
    expect(await rightsOf(up.facts, 'relay', namespace)).toEqual(committed('elsewhere'));
  });

  it('passes the check of the rights', async () => {
    await expect(
      helm([
        ...['test', release, '--namespace', namespace, '--timeout', '120s'],
        ...['--filter', `name=${release}-check`],
      ]),
    ).resolves.toContain('Succeeded');
  }, 150_000);

  it(
    'takes over the calls of an agent that runs, and gives them back',
    async () => {
      await callsAgain(earlier.id, 'relay');
      await setRelays(0, '');
      await callsAgain(earlier.id, 'gateway');
    },
    4 * withinMs,
  );
});
