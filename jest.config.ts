import { availableParallelism } from 'node:os';
import type { Config } from 'jest';

const config: Config = {
  testEnvironment: '<rootDir>/test/support/plain-environment.ts',
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '\\.ts$': [
      '@swc/jest',
      {
        jsc: { target: 'es2024', parser: { syntax: 'typescript' } },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
  testMatch: ['<rootDir>/test/**/*.test.ts', '<rootDir>/packages/*/test/**/*.test.ts'],
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/.data/', '<rootDir>/.cache/'],
  // A busy machine takes ten times as long as a quiet one, and a test that hangs is seen soon
  // enough.
  testTimeout: 200_000,
  // Many tests wait for processes that they start, so one more of them runs at once than there are
  // cores. Each further one makes the others slower: two on a core take a third more of its time.
  maxWorkers: availableParallelism() + 1,
  testSequencer: '<rootDir>/test/support/sequencer.ts',
  // Modules of a test file, and simulated processes that were killed, are never freed: some
  // gigabytes over all files.
  workerIdleMemoryLimit: '800MB',
  reporters: ['default', '<rootDir>/test/support/summary-reporter.ts'],
};

export default config;
