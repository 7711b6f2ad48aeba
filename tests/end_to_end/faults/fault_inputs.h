/*
 * What the commands of fault_commands.h read: images of all formats, sidecars, stores, profiles,
 * cores, objects.
 */
#ifndef COVSPLIT_TESTS_END_TO_END_FAULTS_FAULT_INPUTS_H
#define COVSPLIT_TESTS_END_TO_END_FAULTS_FAULT_INPUTS_H

/* Makes the directory with all of them. Fails the Check test if anything fails. */
void fault_inputs_create(const char *inputs);

#endif
