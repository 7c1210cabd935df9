import { readFileSync } from 'node:fs';
import { chartFolder } from '../../../helm/tools/render.ts';
import { apply, getJson, kubectl } from '../../e2e/support/cluster.ts';
import { agentImage, helm, release } from '../../e2e/support/installation.ts';
import { eventually } from '../../support/eventually.ts';
import { RestUser } from '../../support/rest-user.ts';
import {
  addresses,
  gitPort,
  hiddenHost,
  hiddenModelHost,
  modelHost,
  modelPort,
  proxyPort,
  publicHost,
} from './places.ts';

export const namespace = 'networks';
export const sandboxes = `${namespace}-sandboxes`;
export const stranger = 'stranger';
export const strangerPort = 8000;
export const strangerAnswer = 'The model of another namespace answers.';

/** Egress to the pod of another namespace, in the form of a NetworkPolicy. */
const toStranger = [
  {
    to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': stranger } } }],
    ports: [{ port: strangerPort, protocol: 'TCP' }],
  },
];

/** Values without the internet, and with what extraEgress names in its place. */
export const closedValues = {
  operator: { extraEgress: toStranger },
  gateway: { internet: false, extraEgress: toStranger },
  relay: { internet: false, extraEgress: toStranger },
  sandboxes: { internet: false, extraEgress: toStranger },
};

/** Values where the gateway serves the relay. */
export const gatewayValues = { relay: { replicas: 0 } };

/** Model of every agent. */
const model = 'openai/m';

const trustConfigMap = 'company-authority';

/** Values where a proxy is the only way out, and alone knows the git host. */
export const proxiedValues = {
  proxy: { https: `http://${addresses.proxy}:${proxyPort}` },
  trust: { configMap: trustConfigMap },
  gitHosts: [{ provider: 'github', url: `https://${hiddenHost}` }],
  sandboxes: { namespace: sandboxes },
  networkPolicies: {
    gateway: { internet: false },
    relay: { internet: false },
    sandboxes: { internet: false },
  },
  defaultTemplate: { agent: { model, baseUrl: `https://${hiddenModelHost}/v1` } },
};

/**
 * Makes both namespaces, with the certificate of the private authority where `proxiedValues` have
 * it, as docs/install.md says: without it the processes do not start. The clean-up of the release
 * removes both.
 */
export async function distributeAuthority(): Promise<() => Promise<void>> {
  const authority = readFileSync(process.env['NETWORKS_AUTHORITY'] ?? '', 'utf8');
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  await apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: sandboxes, labels } },
    ...[namespace, sandboxes].map((of) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: trustConfigMap, namespace: of },
      data: { 'ca.crt': authority },
    })),
  );
  return () => Promise.resolve();
}

/** Values where the platform chooses the users of pods, as values.yaml says. */
export const chosenUserValues = {
  podSecurityContext: { runAsUser: null, runAsGroup: null },
  defaultTemplate: {
    podSecurityContext: {
      runAsUser: null,
      runAsGroup: null,
      fsGroup: null,
      fsGroupChangePolicy: null,
    },
  },
};

export interface Values {
  readonly networkPolicies?: object;
  readonly defaultTemplate?: object;
  readonly [name: string]: unknown;
}

/** Installs the chart, or gives the installed one other values. */
export async function install({ defaultTemplate = {}, ...values }: Values = {}): Promise<void> {
  const { repository, tag } = agentImage();
  await helm(
    [
      ...['upgrade', '--install', release, chartFolder, '--namespace', namespace],
      ...['--create-namespace', '--wait', '--timeout', '120s'],
    ],
    {
      image: { repository: repository.replace(/-agent$/, ''), tag },
      gitHosts: [{ provider: 'github', url: `http://${publicHost}:${gitPort}` }],
      operator: { replicas: 1 },
      gateway: { replicas: 1 },
      relay: { replicas: 2 },
      defaultTemplate: {
        image: { repository, tag },
        resources: { requests: { cpu: '20m', memory: '64Mi' } },
        storage: { size: '1Gi' },
        agent: { model, baseUrl: `http://${modelHost}:${modelPort}/v1` },
        ...defaultTemplate,
      },
      ...values,
    },
  );
}

/** Removes the release with all that it keeps. */
export async function uninstall(): Promise<void> {
  await helm(['uninstall', release, '--namespace', namespace, '--wait']);
  await kubectl(`delete namespace ${namespace} ${sandboxes} --ignore-not-found --timeout 60s`);
  const definitions = (await kubectl('get crd -o name'))
    .split('\n')
    .filter((name) => name.includes('conversation-operator.dev'));
  await kubectl(['delete', '--ignore-not-found', ...definitions]);
}

/** A user with the first key. Tests run in the network namespace of the node. */
export async function firstUser(): Promise<RestUser> {
  const [service, key] = await Promise.all([
    kubectl(`-n ${namespace} get service ${release}-gateway -o jsonpath={.spec.clusterIP}`),
    kubectl(`-n ${namespace} get secret ${release}-first-key -o jsonpath={.data.api-key}`),
  ]);
  const host = service.includes(':') ? `[${service}]` : service;
  const user = new RestUser({ url: `http://${host}`, key: Buffer.from(key, 'base64').toString() });
  // Pods are ready before kube-proxy has translated the address of their Service.
  await eventually('the gateway to answer', async () => {
    const { status } = await user.call('GET', '/ready');
    return status === 200;
  });
  return user;
}

/**
 * Has agents use the model in the pod of another namespace, which the values do not name: that
 * takes the relay's extraEgress.
 */
export async function useModelOfStranger(): Promise<void> {
  const { address } = await podOf(stranger, `app=${stranger}`);
  const host = address.includes(':') ? `[${address}]` : address;
  const spec = { agent: { baseUrl: `http://${host}:${strangerPort}/v1` } };
  await kubectl([
    ...['--namespace', sandboxes, 'patch', 'sandboxtemplate', 'default', '--type', 'merge'],
    ...['--patch', JSON.stringify({ spec })],
  ]);
}

/** Makes the pod of another namespace, which listens, and answers as a model. */
export async function startStranger(): Promise<void> {
  const { repository, tag } = agentImage();
  const answer = JSON.stringify({
    id: 'completion',
    object: 'chat.completion',
    created: 0,
    model: 'm',
    choices: [
      { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: strangerAnswer } },
    ],
    usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
  });
  const script = `require('http').createServer((_, response) => response.setHeader('content-type', 'application/json').end(${JSON.stringify(answer)})).listen(${strangerPort}, '::')`;
  const metadata = { name: stranger, namespace: stranger, labels: { app: stranger } };
  await apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: stranger } },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata,
      spec: {
        terminationGracePeriodSeconds: 0,
        containers: [
          {
            name: stranger,
            image: `${repository}:${tag}`,
            command: ['/usr/local/bin/node', '--eval', script],
          },
        ],
      },
    },
  );
  await kubectl(`-n ${stranger} wait --for=condition=Ready pod/${stranger} --timeout 60s`);
}

/** The address of the first pod with these labels. */
export async function podOf(
  of: string,
  labels: string,
): Promise<{ readonly name: string; readonly address: string }> {
  const { items } = await getJson<{
    readonly items: readonly {
      readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
      readonly status: { readonly podIP?: string; readonly phase: string };
    }[];
  }>(`pods --namespace ${of} -l ${labels}`);
  const pod = items.find(
    ({ metadata, status }) =>
      metadata.deletionTimestamp === undefined && status.phase === 'Running',
  );
  if (pod?.status.podIP === undefined) throw new Error(`no pod of ${of} has ${labels}`);
  return { name: pod.metadata.name, address: pod.status.podIP };
}
