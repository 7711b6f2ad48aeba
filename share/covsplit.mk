# Rules for GNU make that make a stripped image and its sidecar from the linker's output.
#
#   include /usr/share/covsplit/covsplit.mk
#   app.unsplit: main.o more.o
#           $(CC) $(LDFLAGS) -o $@ $^
#   $(eval $(call covsplit_split,app,app.unsplit))
#   clean:
#           rm -f $(COVSPLIT_CLEAN)
#
# The sidecar is app.covsplit. If it or app is deleted, it is made again. If the new image is the same
# as the old one, it keeps its time, so that what depends on it is not made again; the stamp app.split
# records that the split was done. (Grouped targets, `&:`, would not work: make always remakes an
# output that is older than its input, so it would split again each time.)
#
# With a store, which has sidecars under the UUIDs of their images:
#
#   $(eval $(call covsplit_split_to_store,app,app.unsplit,sidecars))
#
# Sidecars in a store are not targets, and a store is not cleaned: it may have sidecars of other builds.
# A sidecar deleted from it is made again only when app is.
#
# To pack objects when they are compiled, so that they are smaller and linked faster, put COVSPLIT_COMPILE
# in front of the compiler:
#
#   %.o: %.c
#           $(COVSPLIT_COMPILE) $(CC) $(CFLAGS) -c -o $@ $<
#
# For make's own rules, CC = $(COVSPLIT_COMPILE) clang. Links may have it too; they pass unchanged.
#
# Variables: COVSPLIT, the command; COVSPLIT_OPTIONS, for `covsplit split`. COVSPLIT_CLEAN lists
# everything that these rules make, except sidecars in stores.

COVSPLIT ?= covsplit
COVSPLIT_OPTIONS ?=
COVSPLIT_COMPILE = $(COVSPLIT) compile --
COVSPLIT_CLEAN ?=

# If an output is missing although its stamp exists, the split must be done again, once for all
# outputs. This is checked when the makefile is read.
define covsplit_outputs
COVSPLIT_CLEAN += $(1) $(2)
ifneq ($$(words $$(wildcard $(1))),$(words $(1)))
$(2): .covsplit-missing
endif
$(1): $(2)
	@test -f $$@
endef
.PHONY: .covsplit-missing

# $(call covsplit_split,OUT,IN)
define covsplit_split
$(1).split: $(2)
	$$(COVSPLIT) split $$(COVSPLIT_OPTIONS) --sidecar $(1).covsplit -o $(1) $(2)
	@touch $$@
$(call covsplit_outputs,$(1) $(1).covsplit,$(1).split)
endef

# $(call covsplit_split_to_store,OUT,IN,STORE)
define covsplit_split_to_store
$(1).split: $(2)
	$$(COVSPLIT) split $$(COVSPLIT_OPTIONS) --store $(3) -o $(1) $(2)
	@touch $$@
$(call covsplit_outputs,$(1),$(1).split)
endef
