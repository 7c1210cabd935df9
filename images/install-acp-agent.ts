/**
 * Installs the pinned npm package of an agent into /agent, without running scripts of packages, and
 * links the folder of its programs as /agent/bin. The arguments are the name of the agent and,
 * where its license is not an open one, the same name again, which accepts the license.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { acpVendors, type AcpVendor } from '../packages/agent-server/src/acp/vendors.ts';

const folder = '/agent';
const [name = '', accepted = ''] = process.argv.slice(2);

const fail = (message: string): never => {
  process.stderr.write(`${message}\n`);
  process.exit(1);
};

const vendors: Readonly<Record<string, AcpVendor>> = acpVendors;
const vendor =
  vendors[name] ?? fail(`AGENT must be one of ${Object.keys(vendors).join(', ')}, not "${name}"`);
const { package: packageName, version, license, command, programFolder = '.bin' } = vendor;

/** An SPDX expression; the table has words of the vendor where the license is not an open one. */
const isOpen = /^[\w.+-]+( (AND|OR|WITH) [\w.+-]+)*$/.test(license);
if (!isOpen && accepted !== name)
  fail(
    `the license of ${name} is not an open one (${license}); ACCEPTED_LICENSE=${name} builds an image with it, which others may not be allowed to have`,
  );

const { status, error } = spawnSync(
  'npm',
  [
    ...['install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund'],
    ...['--no-package-lock', '--loglevel=error', `${packageName}@${version}`],
  ],
  { stdio: 'inherit' },
);
if (error !== undefined) fail(`npm can't be run: ${error.message}`);
if (status !== 0) process.exit(status ?? 1);

const programs = join(
  'node_modules',
  programFolder.replace('{platform}', process.platform).replace('{arch}', process.arch),
);
if (!existsSync(join(folder, programs, command[0])))
  fail(`${packageName}@${version} has no program ${command[0]} in ${programs}`);
symlinkSync(programs, join(folder, 'bin'));
