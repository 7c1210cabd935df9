import { kubectl } from '../../e2e/support/cluster.ts';

/** A connection to a port, or without one the resolution of a name. */
export interface Attempt {
  readonly host: string;
  readonly port?: number;
}

const attemptMs = 3000;
/** Runs in a pod, whose image has Node and maybe no shell. */
const script = `
  const { lookup } = require('dns').promises;
  const { connect } = require('net');
  const attempt = ({ host, port }) => new Promise((resolve) => {
    setTimeout(() => resolve('time-out'), ${attemptMs});
    if (port === undefined) return lookup(host).then(() => resolve('open'), ({ code }) => resolve(code));
    const socket = connect({ host, port });
    socket.on('connect', () => resolve('open'));
    socket.on('error', ({ code }) => resolve(code));
  });
  Promise.all(JSON.parse(process.argv[1]).map(attempt)).then((outcomes) => {
    console.log(JSON.stringify(outcomes));
    process.exit();
  });
`;

/** The result of each attempt from a pod: open, or the code of the failure. */
export async function probe(
  namespace: string,
  pod: string,
  attempts: readonly Attempt[],
): Promise<readonly string[]> {
  const answer = await kubectl([
    ...['--namespace', namespace, 'exec', pod, '--', '/usr/local/bin/node', '--eval', script],
    JSON.stringify(attempts),
  ]);
  return JSON.parse(answer) as readonly string[];
}
