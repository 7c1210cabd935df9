import { readFileSync } from 'node:fs';
import { z } from 'zod';

const packageSchema = z.object({
  link: z.boolean().optional(),
  integrity: z.string().optional(),
  optionalDependencies: z.record(z.string(), z.string()).default({}),
});
const lockSchema = z.object({ packages: z.record(z.string(), packageSchema) });
const { packages } = lockSchema.parse(JSON.parse(readFileSync('package-lock.json', 'utf8')));
const names = Object.keys(packages);

describe('the lock file', () => {
  it('has the packages of every platform, so that `npm ci` works on each', () => {
    const wanted = new Set(
      Object.values(packages).flatMap(({ optionalDependencies }) =>
        Object.keys(optionalDependencies),
      ),
    );
    expect(
      [...wanted].filter((name) => !names.some((path) => path.endsWith(`node_modules/${name}`))),
    ).toEqual([]);
    expect([...wanted]).toEqual(
      expect.arrayContaining(['@esbuild/darwin-arm64', '@swc/core-linux-x64-musl']),
    );
  });

  it('has a checksum of every package that comes from a registry', () => {
    const fetched = Object.entries(packages).filter(
      ([path, { link }]) => path.startsWith('node_modules/') && link !== true,
    );
    expect(
      fetched.filter(([, { integrity }]) => integrity === undefined).map(([path]) => path),
    ).toEqual([]);
    expect(fetched.length).toBeGreaterThan(0);
  });
});
