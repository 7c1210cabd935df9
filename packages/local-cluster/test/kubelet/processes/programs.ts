import type { ImageProgram } from '../../../src/kubelet/options.ts';

const server = `
  const { createServer } = require('node:http');
  createServer((request, response) => {
    if (request.url === '/crash') process.exit(3);
    response.end(String(process.pid));
  }).listen(8000, process.env.HOST, () => console.log('serving'));
  process.on('SIGTERM', () => { console.log('bye'); process.exit(0); });
`;

/** Images of the tests: a server on port 8000 of its pod's address that dies of /crash; a shell. */
export const images: Readonly<Record<string, ImageProgram>> = {
  server: { command: [process.execPath, '-e', server, '--'] },
  shell: { command: ['sh', '-c'] },
};
