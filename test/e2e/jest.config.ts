import type { Config } from 'jest';
import base from '../../jest.config.ts';

const config: Config = {
  ...base,
  rootDir: '../..',
  testMatch: ['<rootDir>/test/e2e/**/*.e2e.ts'],
  // The image takes minutes to build and needs a Python package index: see `run`.
  testPathIgnorePatterns: process.env['OPENHANDS'] === undefined ? ['openhands.e2e.ts$'] : [],
  globalSetup: '<rootDir>/test/e2e/support/setup.ts',
  globalTeardown: '<rootDir>/test/e2e/support/teardown.ts',
  testSequencer: '<rootDir>/test/e2e/support/sequencer.ts',
  // All parts share one installation, so they run one after the other.
  maxWorkers: 1,
  testTimeout: 200_000,
};

export default config;
