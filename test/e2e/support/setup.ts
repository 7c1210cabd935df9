import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { program } from '../../support/installation.ts';
import { cleanUp } from './clean-up.ts';
import { kubeconfig, kubectl, stateFolder } from './cluster.ts';
import { startGitServer } from './git-server.ts';
import {
  agentImage,
  chartValues,
  helm,
  owners,
  release,
  report,
  writeFacts,
  type Facts,
} from './installation.ts';
import { PortForward } from './port-forward.ts';
import { packagePreviousChart } from './previous-chart.ts';

const execute = promisify(execFile);

declare global {
  var e2ePortForward: PortForward | undefined;
}

/** Issues an API key as for a new user. */
async function issueKey(owner: string, namespace: string): Promise<string> {
  const args = [
    program,
    'keys',
    'create',
    '--owner',
    owner,
    '--kubeconfig',
    kubeconfig,
    '--namespace',
    namespace,
  ];
  return (await execute(process.execPath, args)).stdout.trim();
}

type Place = Omit<Facts, 'url' | 'gitUrl' | 'keys'>;

async function install(place: Place): Promise<Facts> {
  const { namespace, sandboxes, tools, previousChart } = place;
  await kubectl(`create namespace ${tools}`);
  const { repository, tag } = agentImage();
  const gitUrl = await startGitServer(tools, `${repository}:${tag}`);

  const begun = performance.now();
  const args = [
    'install',
    release,
    previousChart,
    '--namespace',
    namespace,
    '--create-namespace',
    '--wait',
    '--timeout',
    '180s',
  ];
  await helm(args, chartValues({ tools, gitUrl }));
  report('helm install --wait', `${((performance.now() - begun) / 1000).toFixed(1)} s`);

  let url = `http://${await kubectl(`--namespace ${namespace} get service ${release}-gateway -o jsonpath={.spec.clusterIP}`)}`;
  if (stateFolder === undefined) {
    globalThis.e2ePortForward = await PortForward.open(namespace, `service/${release}-gateway`, 80);
    url = globalThis.e2ePortForward.url;
  }
  const keys: Record<string, string> = {};
  for (const owner of owners) keys[owner] = await issueKey(owner, sandboxes);
  return { ...place, url, gitUrl, keys };
}

/** Installs the chart, once for all tests. A failure here ends the run. */
export default async function setup(): Promise<void> {
  const work = process.env['E2E_WORK'];
  if (work === undefined || kubeconfig === '')
    throw new Error('run test/e2e/run, which brings a cluster and the images');
  if ((await kubectl('get crd -o name')).includes('conversation-operator.dev')) {
    throw new Error(
      'the cluster has definitions of conversation-operator.dev already: e2e would take them away at its end',
    );
  }
  const id = randomBytes(3).toString('hex');
  // The namespace of the sandboxes is the one that the chart makes by default.
  const [namespace, sandboxes, tools] = [`e2e-${id}`, `e2e-${id}-sandboxes`, `e2e-${id}-tools`];
  const place = {
    work,
    namespace,
    sandboxes,
    tools,
    previousChart: await packagePreviousChart(work),
  };
  writeFacts({ ...place, url: '', gitUrl: '', keys: {} });
  try {
    writeFacts(await install(place));
  } catch (error) {
    await cleanUp();
    throw error;
  }
}
