int arch;
