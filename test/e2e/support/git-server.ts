import { startServer } from './server.ts';

export const readme = 'The shop.';
export const feature = 'Work in progress.';
export const setUpFile = '.set-up';

const server = `
  const { createReadStream, statSync } = require('node:fs');
  const { join, normalize } = require('node:path');
  require('node:http').createServer((request, response) => {
    const path = join('/tmp/repositories', normalize(new URL(request.url, 'http://git').pathname));
    if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return response.writeHead(404).end();
    const file = createReadStream(path);
    file.on('error', () => response.writeHead(404).end());
    file.on('open', () => response.writeHead(200));
    file.pipe(response);
  }).listen(8080);
`;

// Git's plain protocol over HTTP: files as they are in the repository, and lists that
// update-server-info writes.
const script = `
set -eu
export HOME=/tmp GIT_AUTHOR_NAME=e2e GIT_AUTHOR_EMAIL=e2e@localhost GIT_COMMITTER_NAME=e2e GIT_COMMITTER_EMAIL=e2e@localhost
rm -rf /tmp/tree /tmp/repositories
git init --quiet --initial-branch main /tmp/tree
cd /tmp/tree
echo '${readme}' >README.md
mkdir .openhands
echo 'echo done >${setUpFile}' >.openhands/setup.sh
git add .
git commit --quiet --message first
git checkout --quiet -b feature
echo '${feature}' >README.md
git commit --quiet --all --message second
git checkout --quiet main
git clone --quiet --bare /tmp/tree /tmp/repositories/acme/shop.git
git -C /tmp/repositories/acme/shop.git update-server-info
exec node --eval "$SERVER"
`;

/** A git server in the cluster with one repository, acme/shop; returns the base URL. */
export const startGitServer = (namespace: string, image: string): Promise<string> =>
  startServer({
    namespace,
    name: 'git',
    container: {
      image,
      command: ['/bin/bash', '-c', script],
      env: [{ name: 'SERVER', value: server }],
      readinessProbe: {
        httpGet: { path: '/acme/shop.git/info/refs', port: 8080 },
        periodSeconds: 1,
      },
    },
  });
