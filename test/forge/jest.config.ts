import type { Config } from 'jest';
import base from '../../jest.config.ts';

const config: Config = {
  ...base,
  rootDir: '../..',
  testMatch: ['<rootDir>/test/forge/**/*.forge.ts'],
  // Each file has a forge and an installation of its own.
  maxWorkers: 2,
  testTimeout: 200_000,
};

export default config;
